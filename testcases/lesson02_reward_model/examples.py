"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import math

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, scenario
from tutorial.lesson02_reward_model import (
    RewardModel,
    calibrate,
    last_token_index,
    pairwise_loss,
    preference_accuracy,
    ranking_loss,
    token_pairwise_loss,
    train_reward_model,
)


def examples(seed: int) -> list[Call]:
    """O(1) numbers in float64; padding on either side; one row, square batches, ties and scores far apart."""
    draw = generator(seed)
    makers = [_of_masks, _of_forward, _of_scores, _of_token_pairwise_loss]
    makers += [_of_preference_accuracy, _of_calibrate, _of_train_reward_model]
    return [call for make in makers for call in make(draw)]


def _of_masks(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, length, sides in ((4, 6, "right"), (3, 5, "left"), (5, 5, "both"), (1, 4, "both"), (3, 4, "none")):
        mask = _mask(draw, rows, length, sides)
        found += [example(last_token_index, mask), example(last_token_index, attention_mask=mask.long())]
    long = torch.arange(300) < torch.tensor([[300], [2], [299]])
    return [*found, example(last_token_index, long.to(torch.uint8))]


def _of_forward(draw: torch.Generator) -> list[Call]:
    score = scenario("score_rows", of=RewardModel.forward)
    found = []
    for rows, length, sides, evaluating in (
        (4, 6, "both", False),
        (3, 5, "left", True),
        (5, 4, "right", False),
        (4, 4, "both", False),
        (1, 5, "left", True),
    ):
        # A frozen backbone has no gradient, and leaves the head its own.
        learning = ("weight", "bias") if rows == 5 else ("table", "places", "weight", "bias")
        found.append(
            example(
                score,
                input_ids=torch.randint(0, 7, (rows, length), generator=draw),
                attention_mask=_mask(draw, rows, length, sides),
                table=normal_from(draw, 7, 3),
                places=normal_from(draw, 8, 3),
                weight=normal_from(draw, 1, 3),
                bias=normal_from(draw, 1),
                evaluating=evaluating,
                grad_of=learning,
                grad_weights=normal_from(draw, rows),
            )
        )
    return [*found, example(score, **_long_in_bfloat16())]


def _long_in_bfloat16() -> dict[str, Tensor]:
    """Texts of 2,100 and 2,099 tokens, which neither bfloat16 nor float16 can count; only the last places differ."""
    mask = torch.ones(2, 2100, dtype=torch.bool)
    mask[1, 0] = False
    places = torch.zeros(2100, 1)
    places[-2:] = torch.tensor([[16.0], [4.0]])
    numbers = {"table": torch.zeros(2, 1), "places": places, "weight": torch.ones(1, 1), "bias": torch.zeros(1)}
    narrow = {name: number.bfloat16() for name, number in numbers.items()}
    return {"input_ids": mask.long(), "attention_mask": mask, **narrow}


def _of_scores(draw: torch.Generator) -> list[Call]:
    both = ("chosen", "rejected")
    found = []
    for count in (4, 1, 7):
        scores = normal_from(draw, count), normal_from(draw, count)
        found += [
            example(pairwise_loss, *scores, grad_of=both),
            example(pairwise_loss, *scores, normal_from(draw, count).abs(), grad_of=both),
        ]
    far = torch.tensor([-900.0, 900.0, 1.0], dtype=torch.float64)
    found.append(example(pairwise_loss, chosen=far, rejected=torch.zeros_like(far), margin=None, grad_of=both))
    found.append(example(pairwise_loss, far.float() / 4, torch.zeros(3)))
    for shape in ((3, 4), (1, 3), (4, 2), (3, 3), (2, 5)):
        found.append(example(ranking_loss, normal_from(draw, *shape), grad_of="scores"))
    return [*found, example(ranking_loss, scores=700 * normal_from(draw, 2, 3), grad_of="scores")]


def _of_preference_accuracy(draw: torch.Generator) -> list[Call]:
    found = []
    for count in (53, 97, 1):  # so many that a new share is seldom an old one
        chosen, rejected = normal_from(draw, count), normal_from(draw, count)
        chosen[count // 2 :: 3] = rejected[count // 2 :: 3]
        found.append(example(preference_accuracy, chosen, rejected))
    # Scores are not probabilities, which round to 1 far above 0.
    levels = torch.tensor([-3.0, 40.0]).repeat(6)
    chosen, rejected = normal_from(draw, 12) + levels, normal_from(draw, 12) + levels
    return [*found, example(preference_accuracy, chosen=chosen, rejected=rejected)]


def _of_token_pairwise_loss(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, length, pad, garbage in ((3, 7, 9, False), (4, 4, 0, False), (2, 6, 3, True), (1, 5, 9, False)):
        ids = _two_texts(draw, rows, length, pad)
        scores = normal_from(draw, 2, rows, length)
        if garbage:
            scores = scores.masked_fill(((ids == pad).all(dim=0)), math.nan)
        found.append(
            example(token_pairwise_loss, *scores, *ids, pad_token_id=pad, grad_of=("chosen_scores", "rejected_scores"))
        )
    # Columns, numbers of tokens and ids that neither bfloat16 nor float16 can tell apart.
    ids = 50_000 + torch.cat([torch.ones(2, 2, 2098, dtype=torch.int64), _two_texts(draw, 2, 7, 9)], dim=2)
    scores = normal_from(draw, *ids.shape).float()
    found.append(example(token_pairwise_loss, *scores, *ids, pad_token_id=50_009))
    # A difference of which exp overflows
    return [*found, example(token_pairwise_loss, scores[0] - 1000, scores[1], *ids, pad_token_id=50_009)]


def _of_calibrate(draw: torch.Generator) -> list[Call]:
    """Some scores are close together, about 0 or not: numbers like any others, as long as they differ. Then some that
    do not, of which rounding leaves a difference."""
    equal = {"features": torch.full((3, 1), 0.1, dtype=torch.float64), "sizes": (2, 1), "bias": torch.zeros(1).double()}
    equal |= {"weight": torch.ones(1, 1).double()}
    found = [
        example(
            scenario("calibrate_model", of=calibrate),
            features=normal_from(draw, sum(sizes), size),
            sizes=sizes,
            weight=spread * normal_from(draw, 1, size),
            bias=offset * normal_from(draw, 1),
            frozen=frozen,
        )
        for sizes, size, spread, offset, frozen in (
            ((4, 3), 3, 1.0, 1.0, "none"),
            ((5,), 2, 1.0, 1.0, "head"),
            ((3, 3), 1, 1e-4, 1.0, "none"),
            ((2, 1, 4), 2, 1.0, 1.0, "backbone"),
            ((3, 1), 2, 1e-13, 0.0, "none"),
        )
    ]
    return [*found, example(scenario("calibrate_model", of=calibrate), **equal)]


def _of_train_reward_model(draw: torch.Generator) -> list[Call]:
    """One batch an epoch, so that no number depends on the order; then many, of which only facts are compared."""
    train, watch = scenario("train_on", of=train_reward_model), scenario("watch_training", of=train_reward_model)
    found = []
    for epochs, batch_size, max_grad_norm in ((3, 8, 5.0), (4, 9, 0.05), (2, 64, 1.5)):
        # Tokens 0 to 15 open the texts, so that each text is another one; 16 to 20 follow, or stand on padding.
        ids = torch.randint(16, 21, (2, 8, 3), generator=draw)
        mask = torch.stack([_mask(draw, 8, 3, "right"), _mask(draw, 8, 3, "right")])
        ids[:, :, 0] = torch.randperm(16, generator=draw).reshape(2, 8)
        found.append(
            example(
                train,
                table=normal_from(draw, 21, 2),
                weight=normal_from(draw, 1, 2),
                chosen_ids=ids[0],
                chosen_mask=mask[0],
                rejected_ids=ids[1].flip(-1),
                rejected_mask=mask[1].flip(-1),
                learning_rate=0.05 + 0.1 * float(torch.rand((), generator=draw)),
                epochs=epochs,
                batch_size=batch_size,
                max_grad_norm=max_grad_norm,
                seconds=20.0,
            )
        )
    found += [
        example(watch, pairs=12, epochs=2, batch_size=5, learning_rate=0.5, seconds=20.0),
        example(
            scenario("train_with_seeds", of=train_reward_model), pairs=12, batch_size=5, seeds=(0, 3, 6), seconds=20.0
        ),
    ]
    return found


def _mask(draw: torch.Generator, rows: int, length: int, sides: str) -> Tensor:
    """Texts of random lengths; with "both", row 0 is padded on the left, row 1 on the right, and so on in turn."""
    size = torch.randint(1, length + 1, (rows, 1), generator=draw)
    size[0] = length - 1
    if sides == "none":
        size[:] = length
    start = torch.zeros_like(size) if sides == "right" else length - size
    if sides == "both":
        start[1::2] = 0
        start[2::3] = (length - size[2::3]) // 2
    place = torch.arange(length)
    return (place >= start) & (place < start + size)


def _two_texts(draw: torch.Generator, rows: int, length: int, pad: int) -> Tensor:
    """(2, rows, length): a common prefix, then a token that differs, then anything, right-padded."""
    words = torch.tensor([word for word in range(1, 9) if word != pad])
    ids = words[torch.randint(len(words), (2, rows, length), generator=draw)]
    for row in range(rows):
        same = int(torch.randint(0, length - 2, (), generator=draw))
        ids[1, row, :same] = ids[0, row, :same]
        ids[0, row, same], ids[1, row, same] = words[row % 3], words[3 + row % 3]
        for side in (0, 1):
            end = int(torch.randint(same + 1, length + 1, (), generator=draw))
            ids[side, row, end:] = pad
    return ids


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
ROW = {
    "input_ids": [[1, 2, 3]],
    "attention_mask": [[True, True, True]],
    "table": [[0.0], [1.0], [2.0], [3.0]],
    "places": [[0.0], [10.0], [20.0]],
    "weight": [[2.0]],
    "bias": [1.0],
}
SCORES = {"chosen": [1.0, 2.0], "rejected": [0.0, 1.0]}
TOKENS = {
    "chosen_scores": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
    "rejected_scores": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "chosen_ids": [[1, 2, 9], [1, 2, 4]],
    "rejected_ids": [[1, 3, 9], [1, 2, 3]],
    "pad_token_id": 9,
}

REFUSALS = {
    last_token_index: ({}, {"a-row-of-padding": ({"attention_mask": [[True, True], [False, False]]}, ["real token"])}),
    scenario("score_rows", of=RewardModel.forward): (
        ROW,
        {"a-shorter-mask": ({"attention_mask": [[True, True]]}, ["attention_mask (1, 2)"])},
    ),
    pairwise_loss: (
        {**SCORES, "margin": [0.5, 0.5]},
        {"rejected-would-broadcast": ({"rejected": [1.0]}, ["rejected (1,)"])},
    ),
    ranking_loss: ({}, {"nothing-to-compare": ({"scores": [[1.0], [2.0]]}, ["K"])}),
    token_pairwise_loss: (
        TOKENS,
        {
            "an-identical-pair": ({"rejected_ids": [[1, 2, 9], [1, 2, 3]]}, ["identical pair"]),
            "left-padded": ({"chosen_ids": [[9, 1, 2], [1, 2, 4]]}, ["chosen_ids", "right-padded"]),
        },
    ),
    preference_accuracy: (SCORES, {"would-broadcast": ({"chosen": [1.0]}, ["chosen (1,)"])}),
}
AGREEMENT = dict.fromkeys([*REFUSALS, calibrate], 1)
