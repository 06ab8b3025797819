"""Inputs that tell a wrong implementation from a right one, from the plain to the rare, and the question behind each.

The first probe on which an implementation differs from the reference is its class of mistake, and the proof that it is
one: bank.json keeps its number. A student whose tests let a class pass reads its question, not its answer.
"""

import math
from typing import Any, NamedTuple

NAN = math.nan


class Probe(NamedTuple):
    """One call."""

    question: str
    arguments: dict[str, Any]
    grad_of: tuple[str, ...] = ()


def gae(question: str, rewards: Any, values: Any, dones: Any, *grad_of: str, **options: float) -> Probe:
    return Probe(question, {"rewards": rewards, "values": values, "dones": dones, **options}, grad_of)


def ppo(question: str, log_probs: Any, advantages: Any, *grad_of: str, **options: Any) -> Probe:
    """The ratios of log-probs -0.5, -1 and -1.5 are 1.65, 1 and 0.61."""
    given = {"old_log_probs": OLD, "clip_epsilon": 0.2, "log_probs": log_probs, "advantages": advantages, **options}
    return Probe(question, {name: value for name, value in given.items() if value is not None}, grad_of)


def rewards(question: str, *grad_of: str, **options: Any) -> Probe:
    return Probe(question, {**REWARDS, **options}, grad_of)


def mask(question: str, *responses: list[int], stops: tuple[int, ...] = (2,)) -> Probe:
    return Probe(question, {"responses": [*responses], "stop_token_ids": stops})


BETWEEN = {"gamma": 0.5, "lam": 0.25}
OLD, BOTH_SIDES, GOOD, BAD, MIXED = (
    [-1.0] * 3,
    [-0.5, -1.0, -1.5],
    [1.0, 2.0, 4.0],
    [-1.0, -2.0, -4.0],
    [1.0, -2.0, 4.0],
)
REWARDS = {
    "scores": [2.0, -1.0],
    "log_probs": [[-1.0, -2.0, -0.5], [-1.5, -0.25, -3.0]],
    "ref_log_probs": [[-2.0, -1.5, -1.0], [-1.0, -1.0, -1.0]],
    "mask": [[True, True, True], [True, True, False]],
}
PADDED = {
    "log_probs": [[-1.0, -2.0, -0.5], [-1.5, -0.25, NAN]],
    "ref_log_probs": [[-2.0, -1.5, -1.0], [-1.0, -1.0, NAN]],
}
LARGE = [[-20.0, -1.0, -1.0], [-1.0, -30.0, -1.0]]
FAR = {"kl_coef": 0.25, "clip_score": 1.5}
STEPS = [[1.0, 2.0, 4.0]], [[1.0, 3.0, 2.0, 8.0]]
ROWS = [[1.0, 2.0, 4.0], [3.0, 1.0, 2.0]], [[1.0, 3.0, 2.0, 8.0], [2.0, 5.0, 1.0, 4.0]], [[0, 1, 0], [1, 0, 0]]

PROBES: dict[str, tuple[Probe, ...]] = {
    "compute_gae": (
        gae("What comes out for a single step?", [[1.0]], [[2.0, 4.0]], [[0]], **BETWEEN),
        gae(
            "What comes out for several steps if gamma and lam are neither 0 nor 1, nor equal?",
            *STEPS,
            [[0, 0, 0]],
            **BETWEEN,
        ),
        gae("What may follow the last step of an episode?", [[1.0, 2.0]], [[1.0, 3.0, 8.0]], [[0, 1]], **BETWEEN),
        gae(
            "What may cross from one episode into the one before it?",
            [[1.0, 2.0, 4.0, 1.0]],
            [[1.0, 3.0, 2.0, 5.0, 8.0]],
            [[0, 1, 0, 0]],
            **BETWEEN,
        ),
        gae("Do several rows, each with an end of its own, come out as each row alone?", *ROWS, **BETWEEN),
        gae("What if gamma or lam is 0, or 1?", [[1.0, 2.0]], [[1.0, 3.0, 8.0]], [[0, 0]], gamma=1.0, lam=1.0),
        gae("And 0?", [[1.0, 2.0]], [[1.0, 3.0, 8.0]], [[0, 0]], gamma=0.9, lam=0.0),
        gae("What are gamma and lam if they are not given?", *STEPS, [[0, 0, 0]]),
        gae("What flows back into rewards and values?", *STEPS, [[0, 1, 0]], "rewards", "values", **BETWEEN),
        gae("Does it work without a batch dimension, or with two?", STEPS[0][0], STEPS[1][0], [0, 0, 0], **BETWEEN),
    ),
    "compute_ppo_loss": (
        ppo("What is the loss where nothing has moved?", OLD, MIXED),
        ppo("What is a good token worth on both sides?", BOTH_SIDES, GOOD),
        ppo("What does a bad token cost on both sides?", BOTH_SIDES, BAD),
        ppo(
            "What gradient reaches the log-probs, inside the interval and on either side of it?",
            BOTH_SIDES,
            [1.0, -2.0, -4.0],
            "log_probs",
        ),
        ppo("And for good tokens?", BOTH_SIDES, GOOD, "log_probs"),
        ppo(
            "Which arguments must receive no gradient?",
            [-0.9, -1.0, -1.1],
            MIXED,
            *("log_probs", "old_log_probs", "advantages"),
        ),
        ppo(
            "What is the interval if its width is another one, or not given?",
            [-0.7, -1.0, -1.4],
            [1.0, 1.0, -1.0],
            clip_epsilon=0.5,
        ),
        ppo("Its default?", BOTH_SIDES, [1.0, 1.0, -1.0], clip_epsilon=None),
        ppo("By what is divided when a mask leaves tokens out?", BOTH_SIDES, MIXED, mask=[True, True, False]),
        ppo(
            "What may stand in the places that the mask leaves out?",
            [-0.9, -1.2, NAN],
            [1.0, -2.0, NAN],
            "log_probs",
            old_log_probs=[-1.0, -1.0, NAN],
            clip_epsilon=None,
            mask=[True, True, False],
        ),
        ppo(
            "What of rows of different lengths?",
            [BOTH_SIDES, BOTH_SIDES],
            [GOOD, BAD],
            old_log_probs=[OLD, OLD],
            clip_epsilon=None,
            mask=[[True, True, True], [True, False, False]],
        ),
    ),
    "compute_rewards": (
        rewards("Where does the score go, if the KL costs nothing?", mask=[[True] * 3] * 2, kl_coef=0.0),
        rewards("What does each token cost, and with which sign?", scores=[0.0, 0.0], kl_coef=0.25),
        rewards("Where is the last token of a shorter response?", kl_coef=0.25),
        rewards("What happens to a score beyond the clip, on either side?", **FAR, scores=[9.0, -9.0]),
        rewards("What happens to a large KL?", **FAR, ref_log_probs=LARGE),
        rewards("What may stand in the padding?", **FAR, **PADDED),
        rewards(
            "Where is the last token if the mask has a gap?", **FAR, mask=[[True, False, True], [False, True, True]]
        ),
        rewards("What does the estimator k2 change?", **FAR, estimator="k2"),
        rewards("And k3?", **FAR, estimator="k3"),
        rewards("What are the coefficients if they are not given?", scores=[7.0, -6.0]),
        rewards("What flows back through the rewards?", "scores", "log_probs", "ref_log_probs", **FAR),
    ),
    "response_mask": (
        mask("What is real if no token stops?", [5, 6, 7, 8]),
        mask("Is the token that stops itself real?", [5, 6, 2, 8]),
        mask("What if the first or the last token stops?", [2, 5, 6, 7]),
        mask("The last?", [5, 6, 7, 2]),
        mask("What if a token that stops comes twice?", [5, 2, 6, 2]),
        mask("What if padding and stop are one id?", [5, 2, 2, 2]),
        mask("What if several ids stop a response?", [5, 3, 6, 2], stops=(2, 3)),
        mask("In the other order?", [5, 2, 3, 6], stops=(3, 2)),
        mask("Does each row have an end of its own?", [5, 2, 6, 7], [5, 6, 7, 8], [2, 2, 5, 6], [5, 6, 7, 2]),
        mask("What if no id stops a response?", [5, 2, 0, 1], stops=()),
        mask(
            "Does it hold for ids such as 0, for one column and for many?",
            [0, 5, 6, 7, 8, 9, 10, 11, 12],
            [5, 6, 7, 8, 9, 10, 11, 0, 0],
            stops=(0,),
        ),
    ),
}
"""By function."""
