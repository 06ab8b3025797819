"""The figures of `tutorial/README.md`: the four models, and one response on its way through the lessons."""

from matplotlib.figure import Figure

from . import BLUE, GREEN, ORANGE, PINK
from .one_response import numbers
from .style import CENTER, INK, RULE, Arrow, Box, diagram, outline, sheet


def agent_environment() -> Figure:
    boxes = {
        "agent": Box(3.0, 2.6, "agent", BLUE, 2.2),
        "environment": Box(3.0, 0.6, "environment", RULE, 2.2),
        "policy": Box(9.8, 2.6, "policy", BLUE, 3.0, note="the language model"),
        "text": Box(9.8, 0.6, "the text so far", RULE, 3.0, note="prompt and tokens"),
    }
    arrows = [
        Arrow("agent", "environment", "action a_t", bend=-0.9, shift=(1.7, -0.1)),
        Arrow("environment", "agent", "reward r_t,\nstate s_t+1", bend=-0.9, shift=(-1.8, -0.2)),
        Arrow("policy", "text", "next token", bend=-0.9, shift=(1.7, -0.1)),
        Arrow("text", "policy", "KL penalty; the score\nafter the last token", bend=-0.9, shift=(-2.6, -0.2)),
    ]
    return diagram(boxes, arrows, (13.2, 3.3), 2.2)


def four_models() -> Figure:
    boxes = {
        "prompt": Box(1.2, 5.3, "prompt", width=1.8, height=0.7),
        "policy": Box(4.6, 5.3, "policy (actor)", BLUE, 2.6, note="trained"),
        "response": Box(9.3, 5.3, "response", width=2.2, height=0.7, note="actions"),
        "old": Box(4.2, 3.5, "old log-probs", width=2.2, note="from sampling"),
        "reference": Box(6.9, 3.5, "reference", RULE, 1.9, note="frozen; log-probs"),
        "reward model": Box(9.3, 3.5, "reward model", PINK, 2.4, note="frozen"),
        "critic": Box(11.8, 3.5, "critic", ORANGE, 2.0, note="trained"),
        "rewards": Box(6.9, 2.0, "rewards", width=2.4, height=0.8, note="KL penalty + score"),
        "gae": Box(9.9, 2.0, "GAE", width=2.4, height=0.8, note="advantages, returns"),
        "losses": Box(5.6, 0.5, "PPO loss + value loss", GREEN, 3.4, 0.8, note="gradients, optimizer step"),
    }
    arrows = [
        Arrow("prompt", "policy"),
        Arrow("policy", "response", "samples", shift=(0.1, 0.15)),
        Arrow("policy", "old"),
        Arrow("response", "reference"),
        Arrow("response", "reward model"),
        Arrow("response", "critic"),
        Arrow("old", "rewards"),
        Arrow("old", "losses", "the ratio", shift=(-0.75, -0.3)),
        Arrow("reference", "rewards"),
        Arrow("reward model", "rewards", "score", shift=(0.35, -0.3)),
        Arrow("rewards", "gae"),
        Arrow("critic", "gae", "values", shift=(-0.6, 0.0)),
        Arrow("gae", "losses"),
        Arrow("losses", "policy", "new weights", bend=-1.55, dashed=True, shift=(-3.1, 0.0)),
        Arrow("losses", "critic", "new weights", bend=0.55, dashed=True, shift=(3.2, -0.9)),
    ]
    return diagram(boxes, arrows, (13.2, 6.0), 3.7)


def one_response() -> Figure:
    one = numbers()
    rows = [
        ("log-probs", BLUE, one.log_probs),
        ("reference", RULE, one.ref_log_probs),
        ("rewards", GREEN, one.rewards),
        ("values", ORANGE, one.values),
        ("TD errors", PINK, one.advantages(0.0)),
        ("advantages", INK, one.advantages()),
    ]
    figure, axes = sheet(2.9, (-2.05, 10.6), (-4.9, 1.5))
    for column, token in enumerate(one.tokens):
        axes.text(column, 0.0, token, **CENTER, bbox=outline(BLUE, 0.25, lw=1.4), fontsize=9)
    for row, (name, color, values) in enumerate(rows):
        y = -0.95 - 0.75 * row
        axes.text(-0.65, y, name, ha="right", va="center", color=color, fontweight="bold")
        for column, number in enumerate(values.tolist()):
            strong = "bold" if row > 3 and abs(number) > 0.5 else "normal"
            text = f"{round(number, 2) + 0.0:.2f}"
            axes.text(column, y, text, **CENTER, fontsize=9, fontweight=strong)
    axes.text(5, 0.95, f'eleven actions after the prompt "{one.prompt}", all numbers rounded', ha="center", color=RULE)
    axes.text(-0.65, 0.0, f"score {one.score:.2f}", ha="right", va="center")
    return figure


FIGURES = (agent_environment, four_models, one_response)
