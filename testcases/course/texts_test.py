"""Numbers that a text, figure or playground quotes and that no program of the text prints.

Most of them belong to one response that goes through all lessons, and to one run of `make demo` of seed 0.
"""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from book.figures.lesson12_capstone import RECORDED
from book.figures.one_response import numbers
from ppo_by_hand.core.texts import encode_prompts
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson06_kl_rewards import estimate_kl
from solutions.lesson08_rollout import generate
from solutions.lesson13_after_ppo import kl_token_losses
from testcases.harness.catalog import ROOT, SOLUTIONS, TUTORIAL
from tiny_models.checkpoints import REWARD_MODEL, SFT
from tiny_models.language import sample_prompts
from tiny_models.tokenizer import build_tokenizer

WORDS = 3


def text(lesson: str) -> str:
    return " ".join((TUTORIAL / lesson / "README.md").read_text("utf-8").split())


def test_lesson_2_four_times_superb_beats_nine_of_ten_reviews():
    from transformers import AutoModelForCausalLM

    tokenizer, reward_model = build_tokenizer(), RewardModel.from_pretrained(REWARD_MODEL).eval()
    ids, visible = encode_prompts(sample_prompts(512, random.Random(1)), tokenizer, tokenizer.pad_token_id)
    sft, sampling = AutoModelForCausalLM.from_pretrained(SFT).eval(), torch.Generator().manual_seed(0)
    found = generate(sft, ids, visible, 20, (tokenizer.eos_token_id,), tokenizer.pad_token_id, generator=sampling)
    trick = tokenizer(["review the film : superb superb superb superb ."], return_tensors="pt")
    with torch.no_grad():
        usual = reward_model(torch.cat([ids, found.responses], 1), torch.cat([visible, found.mask], 1))
        score = reward_model(trick["input_ids"], trick["attention_mask"].bool())
    assert (usual < score).float().mean() > 0.9
    assert '"superb superb superb superb ." It ranks this text above more than 90 % of the SFT model\'s' in text(
        "lesson02_reward_model"
    )


def test_lesson_6_k3_varies_more_than_k1_far_from_the_reference():
    policy = torch.tensor([0.97, 0.01, 0.01, 0.01], dtype=torch.float64)
    deviations = []
    for name in ("k1", "k3"):
        one = estimate_kl(policy.log(), torch.full((4,), 0.25, dtype=torch.float64).log(), name)
        mean = (policy * one).sum()
        assert mean.item() == pytest.approx(1.22, abs=0.005)
        deviations.append((policy * (one - mean) ** 2).sum().sqrt().item())
    said = text("lesson06_kl_rewards")
    assert f"the standard deviation of $k_1$ is {deviations[0]:.2f}, while that of $k_3$ is {deviations[1]:.2f}" in said


def gradients(shift: float) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Of the mean of ratio * k3 over all responses of two tokens, and of the KL of the response; by both logits."""
    torch.manual_seed(0)
    logits = [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((WORDS,), (WORDS, WORDS))]
    reference = [torch.randn(*size, dtype=torch.float64) for size in ((WORDS,), (WORDS, WORDS))]
    sampler = [one.detach() + shift * torch.randn(one.shape, dtype=torch.float64) for one in logits]
    now, old, ref = (of_all_responses(*one) for one in (logits, sampler, reference))
    kl = (now.sum(1).exp() * (now.sum(1) - ref.sum(1))).sum()
    mask = torch.ones(now.shape, dtype=torch.bool)
    loss = (old.sum(1).exp()[:, None] * kl_token_losses(now, old, ref, mask)).sum()
    of_loss, of_kl = (list(torch.autograd.grad(one, logits, retain_graph=True)) for one in (loss, kl))
    return of_loss, of_kl


def of_all_responses(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    one, two = first.log_softmax(0), second.log_softmax(1)
    return torch.stack([torch.stack([one[a], two[a, b]]) for a in range(WORDS) for b in range(WORDS)])


def test_lesson_13_the_gradient_of_ratio_times_k3_is_that_of_each_tokens_kl_only():
    of_loss, of_kl = gradients(shift=0.0)
    torch.testing.assert_close(of_loss[1], of_kl[1])
    said = (", ".join(f"{one:.3f}" for one in gradient[0].tolist()) for gradient in (of_loss, of_kl))
    assert "gave [{}] for the logits of the first token, and the gradient of the KL is [{}]".format(*said) in text(
        "lesson13_after_ppo"
    )
    of_loss, of_kl = gradients(shift=0.7)
    assert (of_loss[1] - of_kl[1]).abs().max() > 0.01, "after a step the prefixes are the old policy's"


ONE = numbers()
ROWS = {name: values.tolist() for name, values in ONE.rows().items()}
RUN = json.loads(RECORDED.read_text("utf-8"))
TEXTS = [ROOT / "tutorial" / "README.md", *sorted((ROOT / "tutorial").glob("lesson*/*.md"))]
SAID = {
    "tutorial/README.md": (
        "the score: {score:.2f}.",
        'at "but", for example. Its own TD error is {TD error[but]:.2f}, but its advantage is {advantages[but]:.2f}',
        "-{kl_coef} * ({log_probs[weak]:.2f} + {minus_ref[weak]:.2f}) = {rewards[weak]:.2f}",
        "{rewards[superb]:.2f} + {rewards[weak]:.2f} + {rewards[<eos>]:.2f} = 0.48. But",
        "{advantages[superb]:.2f} + {values[superb]:.2f} = {returns[superb]:.2f}",
        "0.94 - {values[superb]:.2f} = {TD error[superb]:.2f}",
        "${values[.]:.2f} - {values[weak]:.2f} + {rewards[weak]:.2f} = -0.77$, but the exact ones give "
        "{TD error[weak]:.2f}",
        "-{kl_coef} * ({log_probs[superb]:.2f} + {minus_ref[superb]:.2f}) = {rewards[superb]:.2f}",
        '"superb" raises it from {values[superb]:.2f} to {values[but]:.2f}, and "weak" lowers it from '
        "{values[weak]:.2f} to {values[.]:.2f}",
    ),
    "tutorial/lesson04_gae/README.md": (
        "the reward model gave it {score:.2f}. The critic (lesson 0) had expected {values[the]:.2f}, so the review is "
        "{advantages, lam = 1[the]:.2f} better than expected.",
        'finds a surprise of +{TD error[superb]:.2f} at "superb" and one of {TD error[weak]:.2f} at "weak"',
        "{rewards[superb]:.2f} + {values[but]:.2f} - {values[superb]:.2f} = {TD error[superb]:.2f}",
        'Our critic saw nothing wrong with "but" ({TD error[but]:.2f})',
        '"but" becomes {advantages[but]:.2f}',
    ),
    "tutorial/lesson07_actor_critic/README.md": (
        '"superb" +{TD error, read too late[superb]:.2f}, "was" +{TD error, read too late[was]:.2f}',
        '{values[superb]:.2f} after "the film was", {values[but]:.2f} after "the film was superb"',
    ),
}
"""Sentences with numbers of the response; a word stands for its first place in it."""


def tables(text: str) -> Iterator[tuple[str, list[str]]]:
    """The rows, without their first cell, of each table whose columns are the response's tokens."""
    here = False
    for line in text.splitlines():
        cells = [re.sub(r"[*`]", "", cell).strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| |") and cells[-len(ONE.tokens) :] == ONE.tokens:
            here = True
        elif here and line.startswith("| ") and cells[0]:
            yield cells[0], cells[1:]
        elif not line.startswith("|"):
            here = False


def shown(number: float) -> str:
    return f"{round(number, 2) + 0.0:.2f}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_table_of_the_response_has_its_numbers(path: Path):
    wrong = [
        f"{name}: expected {list(map(shown, ROWS.get(name, [])))}, got {cells}"
        for name, cells in tables(path.read_text("utf-8"))
        if cells != list(map(shown, ROWS.get(name, [])))
    ]
    assert not wrong, "\n".join(wrong)


def test_lessons_4_7_and_8_have_such_a_table():
    having = [path.parent.name[:8] for path in TEXTS if list(tables(path.read_text("utf-8")))]
    assert {"lesson04", "lesson07", "lesson08"} <= set(having)


@pytest.mark.parametrize(
    "file, sentence", [(file, sentence) for file, sentences in SAID.items() for sentence in sentences]
)
def test_a_sentence_about_the_response_has_its_numbers(file: str, sentence: str):
    first = {word: ONE.tokens.index(word) for word in ONE.tokens}
    given = ROWS | {"minus_ref": [-number for number in ROWS["ref_log_probs"]]}

    def filled(match: re.Match[str]) -> str:
        name, word = match["name"], match["word"]
        return shown(given[name][first[word]] if word else getattr(ONE, name)) if match["form"] else str(ONE.kl_coef)

    expected = re.sub(r"\{(?P<name>[^}:[]+)(\[(?P<word>[^]]+)\])?(?P<form>:\.2f)?\}", filled, sentence)
    assert expected in re.sub(r"\*\*|\s+", lambda m: "" if "*" in m[0] else " ", (ROOT / file).read_text("utf-8"))


def test_the_playground_starts_from_it():
    script = (ROOT / "book" / "static" / "playgrounds" / "playgrounds.js").read_text("utf-8")
    words, values = (json.loads(re.search(rf"const {name} = (\[.*?\]);", script)[1]) for name in ("WORDS", "VALUES"))
    assert words == ONE.tokens and values == [round(value, 2) for value in ROWS["values"]]
    assert f'label: "score at the end", min: -2, max: 2, step: 0.01, value: {round(ONE.score, 2)}' in script


def test_the_table_of_lesson_12_is_the_recorded_run():
    text = (TUTORIAL / "lesson12_capstone/README.md").read_text("utf-8").replace("**", "")
    for name, title in (("sft", "SFT"), ("ppo", "PPO, `kl_coef = 0.09`"), ("no_kl", "PPO without KL penalty")):
        one = RUN[name]
        distance = f"{one['kl']:.0f} nats" if one["kl"] > 0.5 else "0"
        row = f"| {title} | {one['proxy']:.2f} | {one['gold']:.2f} | {distance} | {one['valid']:.0%} |"
        assert row.replace("%", " %") in text, row
    assert RUN["no_kl"]["response"] in " ".join(text.split())
    assert RUN["kl_coef"] == 0.09


def test_the_first_of_the_ten_seeds_is_the_recorded_run():
    runs = json.loads((SOLUTIONS / "demo/ten_seeds.json").read_text("utf-8"))["runs"]
    (first,) = [run for run in runs if not run["seed"]]
    for name in ("sft", "ppo", "no_kl"):
        assert all(round(number, 4) == RUN[name][key] for key, number in first[name].items()), name
