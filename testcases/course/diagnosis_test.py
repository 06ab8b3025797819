"""What a wrong answer hears: a right cause or nothing, said as to a colleague, and in no more time than it may take."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from testcases.course import unseen
from testcases.course.unseen import failures, lesson_of
from testcases.harness.catalog import ROOT, SOLUTIONS, lesson_names, read_lesson
from testcases.harness.diagnosis.cost import calls_made
from testcases.harness.diagnosis.exceptions import CAUSES
from testcases.harness.diagnosis.explain import Explanation, faults
from testcases.harness.diagnosis.mistakes import bench_of
from testcases.harness.diagnosis.parts import same_outcome
from testcases.harness.diagnosis.sentences import SHOWN, causes_of
from testcases.harness.diagnosis.values import Cause, Diagnosis, Mistake, Named, Repair, Shows, Sign, Step
from testcases.harness.execution.executor import InProcess, solutions_changed
from testcases.harness.oracle.mutations import Change, NamedChange, edit, instead, wrong_answers
from testcases.harness.oracle.reference import examples, shared_reference, with_change
from testcases.harness.report.failures import wrap

SAMPLE = 12
"""One in so many of the unseen answers is asked in each run, all of them in the slow one."""
FIRST_ROW = """
mask = torch.ones_like(responses, dtype=torch.bool)
for i, row in enumerate(responses.tolist()):
    for j, token in enumerate(row):
        if token in stop_token_ids:
            mask[i, j + 1 :] = False
            return mask
return mask
"""
BOOTSTRAPS_AT_THE_END = """
advantages, last, steps = torch.zeros_like(rewards), 0.0, rewards.shape[-1]
for t in reversed(range(steps)):
    delta = rewards[..., t] + gamma * values[..., min(t + 1, steps - 1)] - values[..., t]
    last = (delta + gamma * lam * last) * mask[..., t]
    advantages[..., t] = last
return AdvantagesAndReturns(advantages, (advantages + values) * mask)
"""
THE_FIRST_ROW_CUTS = """
n = int(self.mask[index[0]].sum())
whole, part = (index, slice(self.prompt_length + n)), (index, slice(n))
names = [field.name for field in fields(self)]
given = {name: getattr(self, name) for name in names}
wide = {name: one[whole if name in names[:2] else part] for name, one in given.items() if one.dim() > 1}
return Experience(**(given | wide | {"scores": self.scores[index]}))
"""
LOOP = """
advantages, last = torch.zeros_like(rewards), 0.0
for t in reversed(range(rewards.shape[-1])):
    alive = 1.0 - dones[..., t].to(rewards.dtype)
    delta = rewards[..., t] + gamma * values[..., t + 1] * alive - values[..., t]
    last = delta + lam * alive * last  # gamma is missing
    advantages[..., t] = last
return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
"""
# verl#2506: the advantages for a mask.
SELECTED = """
mask = advantages.bool() if mask is None else mask
log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
ratio = torch.exp(log_probs - old_log_probs)
clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
return -torch.minimum(ratio * advantages, clipped * advantages).mean()
"""
SELECTED_LAST = """
ratio, advantages = (log_probs - old_log_probs.detach()).exp(), advantages.detach()
clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
keep = advantages.bool() if mask is None else mask & advantages.bool()
return -torch.minimum(ratio * advantages, clipped * advantages)[keep].mean()
"""
COUNTED = """
log_ratio = (log_probs - ref_log_probs).masked_fill(~mask, 0.0)
kl = {"k1": log_ratio, "k2": log_ratio**2 / 2, "k3": torch.exp(-log_ratio) - 1 + log_ratio}[estimator]
rewards = -kl_coef * kl
rewards[torch.arange(len(scores)), mask.sum(1) - 1] += scores.clamp(-clip_score, clip_score)
return (rewards * mask).detach()
"""
OF_A_DRAFT = """
scores = scores.detach()
centered = scores - scores.mean(dim=1, keepdim=True)
variance = scores.var(dim=1, keepdim=True, unbiased=False)
return centered / (variance + epsilon).sqrt() if divide_by_std else centered
"""
CONTINUOUS = """
p = probabilities.detach().double()
q = n * p * p.cumsum(0) ** (n - 1)
return float((q * (q / p).log())[q > 0].sum())
"""
UPSIDE_DOWN = """
log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs, advantages)
ratio = torch.exp(old_log_probs - log_probs)
return (ratio * advantages - beta * (ratio - 1 - ratio.log())).mean()
"""
WHITENED = """
log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
if advantages.numel() > 1:
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
ratio = torch.exp(log_probs - old_log_probs)
return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages).mean()
"""
IN_PLACE = """
stops = is_stop(responses, stop_token_ids).long().cumsum(dim=1)
responses[stops >= 1] = pad_token_id
return responses
"""

HEARD = [
    (4, "td_errors", edit("gamma * => gamma**2 *"), "`gamma` is applied twice"),
    (4, "td_errors", edit(".masked_fill(dones.bool(), 0.0) =>  * (1 - dones)"), "doesn't work on a bool tensor"),
    (4, "td_errors", edit("values[..., 1:] => values[:, 1:]"), "counts from the first dimension"),
    (4, "td_errors", edit("return rewards + => \nreturn rewards.nothing +"), "in td_errors return rewards.nothing +"),
    (4, "compute_gae", edit("stacked + values => stacked - values"), "`stacked - values[..., :-1]`, isn't right yet"),
    (4, "compute_gae", edit("stacked =  => rewards.mul_(1.5); stacked = "), "changes `rewards` in place"),
    (5, "ppo_statistics", edit("log_ratio.expm1() - => ratio - 1 -"), "right in float64 but not in float32"),
    (1, "gather_log_probs", edit("scaled.logsumexp(dim=-1) => scaled.exp().sum(-1).log()"), "exp of a large number"),
    (1, "masked_mean", edit(".mean() => .mean().item()"), "no gradient passes through one"),
    (13, "group_advantages", instead("return torch.zeros_like(scores)"), "doesn't import `torch`"),
    (4, "compute_gae", instead(LOOP), "it needs gamma * lam"),
    (5, "compute_ppo_loss", instead(SELECTED), "tokens of advantage 0 are not counted"),
    (4, "compute_response_gae", edit("argsort(dim=1, stable => argsort(1, stable"), "by name"),
    (1, "response_mask", edit(" - stops => "), "expected True, got False"),
    (13, "group_advantages", instead(OF_A_DRAFT), "divided by K"),
]  # fmt: skip
"""A lesson, an exercise, a change of the reference, and what the first message says."""
NOT_HEARD = [
    (5, "compute_ppo_loss", instead(SELECTED_LAST), "every test passes"),
    (6, "compute_rewards", instead(COUNTED), "the score is left out"),
    (1, "response_mask", instead(FIRST_ROW), "stripped from the end"),
    (1, "masked_mean", instead("values[mask].mean()"), "no effect"),
    (4, "compute_response_gae", instead(BOOTSTRAPS_AT_THE_END), "padding enters"),
    (8, "Experience.rows", instead(THE_FIRST_ROW_CUTS), "shortest response"),
    (13, "expected_best_of_n", instead("return scores.detach().topk(n, dim=1).values.mean(1)"), "the maximum of all"),
    (8, "sample_token", edit("ordered.cumsum(dim=1) - ordered => ordered.cumsum(dim=1)"), "generator"),
    (5, "clipped_objective", edit("clipped * advantages) => clipped * advantages).mean()"), "size 1"),
    (13, "best_of_n_kl", instead(CONTINUOUS), "one response of probability"),
    (5, "compute_kl_penalty_loss", instead(UPSIDE_DOWN), "corrects for old samples"),
    (5, "compute_ppo_loss", instead(WHITENED), "numel() > 1"),
    (1, "truncate_after_stop", instead(IN_PLACE), "overwrite the stop"),
    (8, "generate", edit("is_writing & ~is_stop(tokens, stop_token_ids) => is_writing & (tokens != stop_token_ids[0])"),
     "stopped earlier"),
]  # fmt: skip
"""What chance alone agrees with, or what stands in the answer already, is no cause."""
OURS = re.compile(r"this is what|wrong answers|Elsewhere|Where it differs")


def is_plain(said: str, lesson: str) -> bool:
    """Without words about the reference, about cases that nobody has seen, and the names of ours."""
    return not OURS.search(said) and not any(f"{wrong.name}:" in said for wrong in wrong_answers(lesson))


def first_failure(subject: InProcess, exercise: str) -> str:
    """The report on the first test that fails, on one line."""
    return " ".join(str(next(failures(subject, exercise), "")).split())


def changed(number: int, exercise: str, change: Change) -> InProcess:
    lesson = read_lesson(str(number)).name
    return with_change(lesson, NamedChange(exercise, "unlisted", "", "", change))


@pytest.fixture(autouse=True)
def no_fault() -> Iterator[None]:
    """What goes wrong in the diagnosis itself is left out of a report; here it fails the test."""
    faults.clear()
    yield
    assert not faults, faults


SINGLES, DRAFTS = unseen.rows("singles"), unseen.rows("drafts")
ROWS = [
    pytest.param(row, id=row.name, marks=[pytest.mark.slow] if number % SAMPLE else [])
    for number, row in enumerate([*SINGLES, *DRAFTS])
]


@pytest.mark.parametrize("row", ROWS)
def test_an_unseen_answer_hears_a_right_cause_or_nothing(row: unseen.Row):
    """Who makes a message better moves its row up to `heard`; who changes one reads it, and says what it is."""
    first = next(failures(row.subject, row.exercise), None)
    assert first is not None, "it is accepted"
    said = " ".join(first.causes)
    assert row.verdict(said) in ("right", "partly", row.judged) or row.judged in ("vague", "false"), said
    assert is_plain(said, lesson_of(row.exercise)), said


def test_few_are_silent_and_next_to_none_is_false():
    assert len(SINGLES) >= 200 and len(DRAFTS) >= 60
    assert sum(row.judged == "false" for row in [*SINGLES, *DRAFTS]) <= 0.01 * len([*SINGLES, *DRAFTS])
    assert sum(row.judged != "heard" for row in SINGLES) <= 0.1 * len(SINGLES)
    assert sum(row.judged == "silent" for row in DRAFTS) <= 0.2 * len(DRAFTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, exercise, change, told", [pytest.param(*row, id=f"{row[1]}-{i}") for i, row in enumerate(HEARD)]
)
def test_the_first_message(number: int, exercise: str, change: Change, told: str):
    said = first_failure(changed(number, exercise, change), exercise)
    assert told in said and is_plain(said, lesson_of(exercise)), said


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, exercise, change, silent", [pytest.param(*row, id=f"{row[1]}-{i}") for i, row in enumerate(NOT_HEARD)]
)
def test_what_agrees_by_chance_is_not_told(number: int, exercise: str, change: Change, silent: str):
    said = first_failure(changed(number, exercise, change), exercise)
    assert ("expected" in said or "changed" in said) and silent not in said, said


DEFINED = "\n\ndef {name}(rewards, values, dones, gamma=0.99, lam=0.95):\n"
SECOND_TRY = DEFINED.format(name="compute_gae") + textwrap.indent(LOOP, "    ")
OTHER_NAME = DEFINED.format(name="with_a_loop") + textwrap.indent(LOOP, "    ") + "\n\ncompute_gae = with_a_loop\n"
CONTROLLER = """

class AdaptiveKLController:
    def __init__(self, kl_coef, target, horizon):
        self.value, self.target, self.horizon = kl_coef, target, horizon

    def update(self, current, n_steps):
        error = min(max(current / self.target - 1, -0.2), 0.2)
        self.value *= 1 + error / self.horizon
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, exercise, older, newer, told",
    [
        pytest.param(4, "compute_gae", "stacked - values", SECOND_TRY, "it needs gamma * lam", id="a-function"),
        pytest.param(4, "compute_gae", "stacked - values", OTHER_NAME, "it needs gamma * lam", id="by-its-name"),
        pytest.param(6, "AdaptiveKLController.update", "self.target", CONTROLLER, "n_steps is ignored", id="a-class"),
    ],
)
def test_of_two_definitions_the_last_one_counts(number: int, exercise: str, older: str, newer: str, told: str):
    """The older one above has a mistake of its own, and is not blamed."""
    lesson = read_lesson(str(number)).name
    file = f"{lesson}/{read_lesson(lesson).file_of(exercise)}"
    text = (SOLUTIONS / file).read_text("utf-8").replace("stacked + values", "stacked - values")
    text = text.replace("current / self.target - 1", "current / self.target")
    said = first_failure(solutions_changed({file: text + newer}), exercise)
    places = [said.find(f"defines `{exercise.partition('.')[0]}` twice"), said.find(told)]
    assert -1 not in places and places == sorted(places) and f"`{older}" not in said, said


ODD = ("return rewards + gamma * next_values", "return rewards.cos() + gamma * next_values.sin()")


@pytest.mark.parametrize(
    "change, is_told",
    [
        pytest.param(("stacked + values", "stacked + values"), True, id="alone"),
        pytest.param(("gamma * lam * next", "lam.__pow__(3) * next"), False, id="and-one-of-its-own"),
    ],
)
def test_the_fault_of_an_exercise_that_is_called_comes_first(change: tuple[str, str], is_told: bool):
    file = "lesson04_gae/gae.py"
    text = (SOLUTIONS / file).read_text("utf-8").replace(*ODD).replace(*change)
    said = first_failure(solutions_changed({file: text}), "compute_gae")
    assert ("`td_errors`, which `compute_gae` calls" in said) == is_told, said


def test_the_remedy_is_left_to_the_hint():
    failed = next(failures(changed(4, "compute_gae", edit("stacked + values => stacked - values")), "compute_gae"))
    assert "stacked + values" not in str(failed)
    assert failed.remedies == (
        "In line 164, write `stacked + values[..., :-1]` instead of `stacked - values[..., :-1]`.",
    )


LONG_CODE = "mean(" + " + ".join(f"name_{i}" for i in range(20)) + ").detach()"


@pytest.mark.parametrize(
    "old, new, shown",
    [
        pytest.param("mean", "sum", "mean(name_0 + name_1 + name_2 + name_3 + name_4 + name_5 ...", id="its-beginning"),
        pytest.param("name_9", "", "... + name_6 + name_7 + name_8 + name_9 + name_10 + name ...", id="its-middle"),
        pytest.param(".detach()", "", "... + name_16 + name_17 + name_18 + name_19).detach()", id="its-end"),
    ],
)
def test_so_much_code_is_shown_as_holds_the_edit(old: str, new: str, shown: str):
    step = Step(7, LONG_CODE, LONG_CODE.replace(old, new))
    assert f"line 7, `{shown}`" in causes_of(Diagnosis((Repair(step),)), "compute_gae")[0][1]


LONG = ("missing_stop_penalty", "old_log_probs", "sampler_log_probs")
"""Names as long as they are."""


def test_each_sentence_has_at_most_two_lines_on_the_screen():
    signs = [Sign(one, LONG) for one in Shows]
    signs += [Sign(Shows.RAISED, (idea, "")) for _, idea, _ in CAUSES]
    named = [Named((Mistake(None, one),), False) for lesson in lesson_names() for one in wrong_answers(lesson)]
    step = Step(1234, "x" * SHOWN, "y" * SHOWN)
    causes: list[Cause] = [*signs, *named, Repair(step), Repair(step, False)]
    for cause in causes:
        said = causes_of(Diagnosis((cause,), inside="SharedPolicyAndValue.forward"), "PolicyAndValue.response_values")
        assert all(len(wrap(" ".join(one).strip())) <= 2 for one in said), said


@pytest.mark.parametrize(
    "lesson, exercise",
    [
        ("lesson04_gae", "compute_gae"),
        ("lesson05_ppo_loss", "ppo_statistics"),
        ("lesson06_kl_rewards", "AdaptiveKLController.update"),
    ],
)
def test_the_bench_gives_the_right_answer_when_nothing_is_changed(lesson: str, exercise: str):
    bench, right = bench_of(lesson, exercise), shared_reference().right_answers_to(lesson, exercise)
    for _ in range(2):
        assert all(map(same_outcome, right, (bench.ask(asked) for asked in examples(lesson, exercise))))
        for mistake in bench.mistakes:
            bench.ask(examples(lesson, exercise)[0], mistake)
    named = [one for one in wrong_answers(lesson) if one.exercise == exercise]
    assert [one.wrong for one in bench.mistakes if one.wrong] == named


@pytest.mark.slow
def test_a_diagnosis_is_short():
    """No change explains it, and no layer leads to more calls than it may."""
    odd = instead("return Experience(**{field.name: getattr(self, field.name).sin() for field in fields(self)})")
    said: list[str] = []
    made = calls_made(lambda: said.append(first_failure(changed(8, "Experience.rows", odd), "Experience.rows")))
    assert "expected" in said[0] and made < 1_500_000, said


def test_a_question_that_seeds_costs_no_more_where_the_stack_is_deep():
    def cost(deeper: int = 0) -> int:
        return cost(deeper - 1) if deeper else calls_made(lambda: torch.manual_seed(0))

    cost()  # torch loads more at its first call
    assert cost() == cost(100)


def test_a_diagnosis_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch):
    def broken(self: Explanation, *of: object) -> None:
        raise RecursionError

    monkeypatch.setattr(Explanation, "_search", broken)
    said = first_failure(changed(4, "compute_gae", edit("stacked + values => stacked - values")), "compute_gae")
    assert "Likely cause" not in said and "expected in returns" in said
    assert {type(error) for error in faults} == {RecursionError}
    faults.clear()


def test_the_script_of_the_page_shows_what_a_student_hears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = (ROOT / "testcases/harness/README.md").read_text("utf-8")
    file = tmp_path / "wrong" / "lesson04_gae" / "gae.py"
    file.parent.mkdir(parents=True)
    source = (SOLUTIONS / "lesson04_gae" / "gae.py").read_text("utf-8")
    file.write_text(source.replace("rewards + gamma * next", "rewards + gamma**2 * next"), "utf-8")
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent(page.partition("\n  ```python\n")[2].partition("```")[0]), {})
    assert "`gamma` is applied twice" in capsys.readouterr().out
