"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import math

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from, ragged_from, uniform_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, scenario
from tutorial.lesson06_kl_rewards import (
    AdaptiveKLController,
    compute_rewards,
    estimate_kl,
    nonnegative_kl,
    penalize_missing_stop,
)

BOTH = ("log_probs", "ref_log_probs")


def examples(seed: int) -> list[Call]:
    """Log-ratios of both signs in float64; ragged rows with a gap; scores beyond the clip; B != T and B == T."""
    draw = generator(seed)
    return [*_estimates(draw), *_rewards(draw), *_penalties(draw), *_updates(draw)]


def _estimates(draw: torch.Generator) -> list[Call]:
    found = []
    for shape in ((3, 5), (4, 4), (6,), (2, 6), (5, 3), (1, 4), (7,), (2, 3, 2)):
        log_probs, ref_log_probs, slopes = _log_probs(draw, *shape), _log_probs(draw, *shape), normal_from(draw, *shape)
        for estimator in ("k1", "k2", "k3"):
            found.append(example(estimate_kl, log_probs, ref_log_probs, estimator, grad_of=BOTH, grad_weights=slopes))
        found.append(example(nonnegative_kl, log_probs, ref_log_probs, grad_of=BOTH, grad_weights=slopes))
    found.append(example(estimate_kl, log_probs=log_probs, ref_log_probs=ref_log_probs, grad_of=BOTH))
    # Of one size the two would have an exact difference, in half precision too.
    small = log_probs / 16
    far = torch.tensor([-1.0, -45.0, -2.0, -1000.0], dtype=torch.float64)
    for estimator in ("k1", "k2", "k3"):
        for dtype in (torch.float32, torch.bfloat16):
            found.append(example(estimate_kl, small.to(dtype), ref_log_probs.to(dtype), estimator))
        found.append(example(estimate_kl, far, far.flip(0), estimator, grad_of=BOTH))
        # A probability of 0: 0 / 0 in code that leaves the logarithms.
        found.append(example(estimate_kl, far - 1000, far - 1000 + normal_from(draw, 4), estimator, grad_of=BOTH))
    found.append(example(estimate_kl, small.half(), ref_log_probs.half()))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found.append(example(nonnegative_kl, small.to(dtype), ref_log_probs.to(dtype)))
    found.append(example(nonnegative_kl, far, far.flip(0), grad_of=BOTH))
    found.append(example(nonnegative_kl, far - 1000, far - 1000 + normal_from(draw, 4), grad_of=BOTH))
    # Close models in float32, in units of the KL between them.
    near = torch.tensor([2.0**-13, -(2.0**-12), 2.0**-12])
    in_units = {"log_probs": torch.zeros(3), "ref_log_probs": near, "unit": 2.0**-27}
    found.append(example(scenario("kl_in_units", of=nonnegative_kl), **in_units))
    for estimator in ("k2", "k3"):
        found.append(example(scenario("kl_in_units", of=estimate_kl), **in_units, estimator=estimator))
    return found


def _rewards(draw: torch.Generator) -> list[Call]:
    found = []
    # The last two are plain: padding on the right, finite numbers in it.
    for rows, steps, garbage, gap in (
        (3, 6, None, True),
        (4, 4, None, True),
        (5, 7, math.nan, True),
        (1, 4, math.nan, True),
        (6, 3, 50.0, True),
        (4, 6, None, False),
        (3, 5, None, False),
    ):
        mask = ragged_from(draw, rows, steps, gap=gap)
        log_probs, ref_log_probs = _log_probs(draw, rows, steps), _log_probs(draw, rows, steps)
        if garbage is not None:
            log_probs = log_probs.masked_fill(~mask, garbage)
            ref_log_probs = ref_log_probs.masked_fill(~mask, -garbage)
        scores, kl_coef, clip_score = 3 * normal_from(draw, rows), 0.3, 1.5
        if gap:
            scores[0], scores[-1] = 20.0, -20.0 if rows > 1 else 20.0
            kl_coef, clip_score = 0.2 + float(uniform_from(draw)), 1 + float(uniform_from(draw))
        args, slopes = (scores, log_probs, ref_log_probs, mask), ("scores", *BOTH) if gap else ()
        for estimator in ("k1", "k2", "k3"):
            found.append(example(compute_rewards, *args, kl_coef, clip_score, estimator, grad_of=slopes))
        names = ("scores", *BOTH, "mask")
        found.append(example(compute_rewards, **dict(zip(names, args, strict=True))))
        found.append(example(compute_rewards, *args, 0.0, clip_score))
    in_float32 = [one.float() if one.is_floating_point() else one for one in args]
    found.append(example(compute_rewards, *in_float32, 0.5))
    # A policy in 16 bits: the rewards are float32.
    found.append(example(compute_rewards, in_float32[0], args[1].bfloat16(), *in_float32[2:], 0.5))
    return found


def _penalties(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, steps, stops in ((6, 4, (2, 3)), (4, 4, (2,)), (5, 2, (9, 2, 3)), (1, 3, (7,))):
        responses = torch.randint(4, 7, (rows, steps), generator=draw)
        for row in range(0, rows - 1, 2):
            at = (row // 2) % steps
            responses[row, at] = stops[(row // 2) % len(stops)]
            responses[row, at + 1 :] = 0
        # In 64ths, exact in float32: what multiplies a bool tensor by it is right.
        scores, penalty = normal_from(draw, rows), round(20 + 64 * float(uniform_from(draw))) / 64
        found += [
            example(penalize_missing_stop, scores, responses, stops, penalty, grad_of="scores"),
            example(penalize_missing_stop, scores=3 + scores, responses=responses, stop_token_ids=stops, penalty=1.0),
        ]
    padded = torch.tensor([[5, 2, 2, 2], [5, 6, 4, 4], [2, 2, 2, 2], [4, 5, 6, 2]])
    found.append(example(penalize_missing_stop, normal_from(draw, 4), padded, (2,), 0.75, grad_of="scores"))
    found.append(example(penalize_missing_stop, normal_from(draw, 4).float(), padded, (2,), 0.75))
    # All have stopped: the same numbers, in a new tensor
    overwritten = scenario("calls.after_the_answer_is_overwritten", of=penalize_missing_stop)
    given = {"responses": padded[:1], "stop_token_ids": (2,), "penalty": 0.75, "scores": normal_from(draw, 1)}
    found.append(example(overwritten, exercise="penalize_missing_stop", argument="scores", **given))
    behind = torch.tensor([[5, 0, 2], [0, 6, 5]])
    found.append(example(penalize_missing_stop, torch.tensor([0.7, -0.3]).double(), behind, (2,), 0.75))
    return found


def _updates(draw: torch.Generator) -> list[Call]:
    coefficients = scenario("coefficients", of=AdaptiveKLController.update)
    found = []
    for target, horizon in ((6.0, 10_000), (2.0, 100), (0.5, 64)):
        value = 0.05 + float(uniform_from(draw))
        near = tuple(target * (0.85 + 0.3 * float(uniform_from(draw))) for _ in range(4))
        for seen in (near, (10 * target, *near[:2], 0.0), (-target, 1.1 * target)):
            given = {"target_kl": target, "horizon": horizon, "seen": seen, "n_steps": (32, 48, 16, 8)[: len(seen)]}
            found.append(example(coefficients, kl_coef=value, **given))
    found.append(example(coefficients, kl_coef=1e-5, target_kl=3.0, horizon=20, seen=(4.0, 3.1), n_steps=(64, 8)))
    # So many responses far below the target, at so short a horizon, turn the sign: nothing is clamped.
    found.append(example(coefficients, kl_coef=0.3, target_kl=2.0, horizon=10, seen=(0.5, 2.1), n_steps=(80, 4)))
    found.append(example(coefficients, kl_coef=0.2, target_kl=2.0, horizon=16, seen=(2.3, 1.9), n_steps=(0, 8)))
    return found


def _log_probs(draw: torch.Generator, *shape: int) -> Tensor:
    return -0.5 - normal_from(draw, *shape).abs()


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
PAIR = {"log_probs": [-1.0, -2.0], "ref_log_probs": [-1.0, -2.0]}
BAD_PAIR = {"would-broadcast": ({"ref_log_probs": [-1.0]}, ["ref_log_probs (1,)"])}
BATCH = {
    "scores": [1.0, 2.0],
    "log_probs": [[-1.0, -1.0], [-1.0, -1.0]],
    "ref_log_probs": [[-1.0, -1.0], [-1.0, -1.0]],
    "mask": [[True, True], [True, False]],
}
RESPONSES = {"scores": [1.0, 2.0], "responses": [[5, 2], [5, 6]], "stop_token_ids": (2,), "penalty": 1.0}
ONE_UPDATE = {"kl_coef": 0.1, "target_kl": 6.0, "horizon": 100, "seen": (6.0,), "n_steps": (4,)}

DEFAULTS = [estimate_kl, compute_rewards]
REFUSALS = {
    nonnegative_kl: (PAIR, BAD_PAIR),
    estimate_kl: (PAIR, {**BAD_PAIR, "unknown-estimator": ({"estimator": "k4"}, ["k1, k2, k3", "k4"])}),
    compute_rewards: (
        BATCH,
        {
            "a-row-without-a-token": ({"mask": [[True, True], [False, False]]}, ["row 1"]),
            "unknown-estimator-of-a-kl-that-costs-nothing": ({"estimator": "k4", "kl_coef": 0.0}, ["k4"]),
        },
    ),
    penalize_missing_stop: (
        RESPONSES,
        {
            "penalty-below-0": ({"penalty": -1.0}, ["penalty"]),
            "one-score-for-two-rows": ({"scores": [1.0]}, ["scores (1,)"]),
        },
    ),
    scenario("coefficients", of=AdaptiveKLController.update): (
        ONE_UPDATE,
        {"nan": ({"seen": (math.nan,)}, ["current"]), "fewer-than-no-responses": ({"n_steps": (-1,)}, ["n_steps"])},
    ),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1) | {scenario("coefficients", of=AdaptiveKLController.update): 3}
