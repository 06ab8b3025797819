"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import as_argument, generator, normal, normal_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, scenario
from tutorial.lesson12_capstone import evaluate_policy, sft_loss, train_policy, train_sft

from .scenarios import WORDS

ALL = ("policy", "policy.dropout", "reference", "reference.dropout")
PROMPTS = ("review the film :", "a friend asks : how was the book ?", "i know nothing of the meal , tell me :")
# Tables know the last token of a prompt only, so these end in different words. One comes twice.
MANY = (
    "review the film",
    "tell me about the phone",
    "review the film",
    "say something of the meal",
    "how was the book ?",
    "review the song :",
)
SCRIPT = {
    "review the film :": "the film was superb and good . <eos>",
    "a friend asks : how was the book ?": "the film was bad . <eos>",
    "i know nothing of the meal , tell me :": "the sauce was very good and the film was plain . <eos>",
    "review the song :": "good good was the good . <eos>",
    "tell me about the phone :": "the battery was lovely .",
}

CLIPPED = 1e-5
"""How far a training with clipped gradients may be off: torch's `clip_grad_norm_` adds 1e-6 to the norm, a student need
not."""


def examples(seed: int) -> list[Call]:
    """Ragged rows, B != L and B == L; a policy of chance and a scripted one; float64, but for whole PPO runs."""
    draw, seed = generator(seed), as_argument(seed)
    found = [*_losses(draw), *_fits(draw, seed), *_evaluations(draw), *_runs(draw, seed)]
    # The first optimizer of a process imports a large part of torch: seconds, on a busy machine.
    return [replace(asked, seconds=20.0) for asked in found]


def _losses(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, length, garbage in ((3, 6, False), (4, 4, False), (2, 5, True)):
        logits = normal_from(draw, rows, length, 7)
        input_ids = torch.randint(7, (rows, length), generator=draw)
        mask = torch.rand((rows, length), generator=draw) < 0.5
        mask[0, 2] = mask[-1, -1] = True
        mask[0, 0] = True
        if garbage:
            # A row's last logits score nothing; nor do those before a token that is not learned.
            logits = logits.masked_fill(~mask.roll(-1, dims=1).unsqueeze(2), math.nan)
            logits[:, -1] = math.nan
        found.append(example(sft_loss, logits, input_ids, mask, grad_of=() if garbage else "logits"))
    return found


def _fits(draw: torch.Generator, seed: int) -> list[Call]:
    ask = scenario("fitted_of", of=train_sft)
    options = {"learning_rate": 0.3, "batch_size": 2, "seed": seed + 1, "places": normal_from(draw, 8, 6)}
    return [
        example(ask, table=3 * normal_from(draw, 6, 6), **demonstrations(draw, 5), **options),
        example(
            ask,
            table=normal_from(draw, 6, 6),
            **demonstrations(draw, 4),
            learning_rate=1.0,
            batch_size=3,
            train_mode=True,
        ),
        example(ask, table=normal_from(draw, 6, 6), **demonstrations(draw, 5), **options, gain=5.0),
    ]


def demonstrations(draw: torch.Generator, count: int) -> dict[str, Tensor]:
    """Rows of 2 prompt tokens, 1 to 4 to learn, and padding."""
    lengths = torch.arange(count).unsqueeze(1) % 4 + 3
    columns = torch.arange(int(lengths.max()))
    input_ids = torch.randint(2, 6, (count, len(columns)), generator=draw).masked_fill(columns >= lengths, 0)
    return {
        "input_ids": input_ids,
        "attention_mask": columns < lengths,
        "loss_mask": (columns >= 2) & (columns < lengths),
    }


def _evaluations(draw: torch.Generator) -> list[Call]:
    ask = scenario("evaluation_of", of=evaluate_policy)
    size = len(WORDS)
    tables = {"policy": fluent(draw), "reference": fluent(draw), "places": 0.1 * normal_from(draw, 32, size)}
    return [
        example(ask, prompts=tuple(SCRIPT), script=SCRIPT, reference=normal_from(draw, size, size)),
        example(ask, prompts=PROMPTS * 4, **tables, temperature=0.7, max_new_tokens=12, seed=3),
        example(ask, prompts=PROMPTS * 2, **tables, max_new_tokens=5, batch_size=6),
        example(ask, prompts=PROMPTS, **tables, in_train_mode=ALL, stop_token_ids=(1, 2), max_new_tokens=8),
        example(ask, prompts=PROMPTS, **tables, in_train_mode=ALL[::2], pad_token_id=1, kl_estimator="k3"),
        example(ask, prompts=PROMPTS[:1], script={PROMPTS[0]: "the film was bad . <unk>"}, stop_token_ids=(1, 2)),
        example(ask, prompts=PROMPTS[1:2], script=SCRIPT, in_train_mode=ALL[1::2]),
        example(ask, prompts=tuple(SCRIPT)[-1:], script=SCRIPT, max_new_tokens=5),
    ]


def fluent(draw: torch.Generator) -> Tensor:
    """A table that often, not always, writes reviews: after each word the ones that may follow it are more likely."""
    table = normal_from(draw, len(WORDS), len(WORDS))
    follows = {":": ["the"], "?": ["the"], "the": ["film", "book", "sauce"], ".": ["<eos>"], "and": ["good", "the"]}
    follows |= dict.fromkeys(("film", "book", "sauce"), ["was"])
    follows |= {"was": ["good", "bad", "very"], "very": ["dull", "superb"]}
    follows |= dict.fromkeys(("good", "bad", "dull", "superb"), [".", ".", "and"])
    for word, others in follows.items():
        for other in others:
            table[WORDS.index(word), WORDS.index(other)] += 6.0
    return table


def _runs(draw: torch.Generator, seed: int) -> list[Call]:
    ask = scenario("tuned_of", of=train_policy)
    common = {"num_updates": 2, "batch_size": 4, "num_epochs": 2, "learning_rate": 0.05, "seed": seed + 1}
    return [
        example(ask, **stages(draw), prompts=PROMPTS[:2], frozen=True, **common),
        example(ask, **stages(draw), prompts=PROMPTS, kl_coef=0.3, temperature=0.8, **common),
        example(ask, **stages(draw), prompts=PROMPTS, resume_after=1, **common),
        example(ask, **stages(draw), prompts=MANY, **common),
    ]


def stages(draw: torch.Generator) -> dict[str, Any]:
    """Two stages in float32, as real models have it."""
    return {
        "sft": normal_from(draw, len(WORDS), len(WORDS)).float(),
        "reward_backbone": normal_from(draw, len(WORDS), 3).float(),
        "reward_head": normal_from(draw, 3).float(),
    }


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
ROWS = {"logits": normal(2, 3, 4), "input_ids": [[1, 2, 0]] * 2, "loss_mask": [[False, True, True]] * 2}
BAD_ROWS = {
    "only-the-first-column": ({"loss_mask": [[True, False, False]] * 2}, ["at least one True"]),
    "mask-of-numbers": ({"loss_mask": [[1, 1, 1]] * 2}, ["bool"]),
    "rows-would-broadcast": ({"input_ids": [[1, 2, 0]]}, ["input_ids (1, 3)"]),
}
FIT_CALL = {"table": normal(6, 6), **demonstrations(torch.Generator().manual_seed(1), 2)}
FIT_CALL |= {"learning_rate": 0.1, "batch_size": 2}
NOTHING = {name: FIT_CALL[name][:0] for name in ("input_ids", "attention_mask", "loss_mask")}

AGREEMENT = {evaluate_policy: 1}
REFUSALS = {
    sft_loss: (ROWS, BAD_ROWS),
    scenario("fitted_of", of=train_sft): (FIT_CALL, {"no-demonstrations": (NOTHING, ["demonstrations"])}),
}
