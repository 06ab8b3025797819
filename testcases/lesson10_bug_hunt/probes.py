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


def _gae(rewards: Any, values: Any, dones: Any, **options: Any) -> dict[str, Any]:
    return {"rewards": rewards, "values": values, "dones": dones, **options}


BETWEEN = {"gamma": 0.5, "lam": 0.25}
PPO = {"old_log_probs": [-1.0, -1.0, -1.0], "clip_epsilon": 0.2}
"""With log-probs of -0.5, -1 and -1.5 the ratios are 1.65, 1 and 0.61."""
BOTH_SIDES, GOOD, BAD = [-0.5, -1.0, -1.5], [1.0, 2.0, 4.0], [-1.0, -2.0, -4.0]
REWARDS = {
    "scores": [2.0, -1.0],
    "log_probs": [[-1.0, -2.0, -0.5], [-1.5, -0.25, -3.0]],
    "ref_log_probs": [[-2.0, -1.5, -1.0], [-1.0, -1.0, -1.0]],
    "mask": [[True, True, True], [True, True, False]],
}
FAR = {"kl_coef": 0.25, "clip_score": 1.5}

PROBES: dict[str, tuple[Probe, ...]] = {
    "compute_gae": (
        Probe("What comes out for a single step?", _gae([[1.0]], [[2.0, 4.0]], [[0]], **BETWEEN)),
        Probe(
            "What comes out for several steps if gamma and lam are neither 0 nor 1, nor equal?",
            _gae([[1.0, 2.0, 4.0]], [[1.0, 3.0, 2.0, 8.0]], [[0, 0, 0]], **BETWEEN),
        ),
        Probe(
            "What may follow the last step of an episode?", _gae([[1.0, 2.0]], [[1.0, 3.0, 8.0]], [[0, 1]], **BETWEEN)
        ),
        Probe(
            "What may cross from one episode into the one before it?",
            _gae([[1.0, 2.0, 4.0, 1.0]], [[1.0, 3.0, 2.0, 5.0, 8.0]], [[0, 1, 0, 0]], **BETWEEN),
        ),
        Probe(
            "Do several rows, each with an end of its own, come out as each row alone?",
            _gae(
                [[1.0, 2.0, 4.0], [3.0, 1.0, 2.0]],
                [[1.0, 3.0, 2.0, 8.0], [2.0, 5.0, 1.0, 4.0]],
                [[0, 1, 0], [1, 0, 0]],
                **BETWEEN,
            ),
        ),
        Probe("What if gamma or lam is 0, or 1?", _gae([[1.0, 2.0]], [[1.0, 3.0, 8.0]], [[0, 0]], gamma=1.0, lam=1.0)),
        Probe("And 0?", _gae([[1.0, 2.0]], [[1.0, 3.0, 8.0]], [[0, 0]], gamma=0.9, lam=0.0)),
        Probe(
            "What are gamma and lam if they are not given?",
            _gae([[1.0, 2.0, 4.0]], [[1.0, 3.0, 2.0, 8.0]], [[0, 0, 0]]),
        ),
        Probe(
            "What flows back into rewards and values?",
            _gae([[1.0, 2.0, 4.0]], [[1.0, 3.0, 2.0, 8.0]], [[0, 1, 0]], **BETWEEN),
            ("rewards", "values"),
        ),
        Probe(
            "Does it work without a batch dimension, or with two?",
            _gae([1.0, 2.0, 4.0], [1.0, 3.0, 2.0, 8.0], [0, 0, 0], **BETWEEN),
        ),
    ),
    "compute_ppo_loss": (
        Probe(
            "What is the loss where nothing has moved?",
            {**PPO, "log_probs": [-1.0] * 3, "advantages": [1.0, -2.0, 4.0]},
        ),
        Probe("What is a good token worth on both sides?", {**PPO, "log_probs": BOTH_SIDES, "advantages": GOOD}),
        Probe("What does a bad token cost on both sides?", {**PPO, "log_probs": BOTH_SIDES, "advantages": BAD}),
        Probe(
            "What gradient reaches the log-probs, inside the interval and on either side of it?",
            {**PPO, "log_probs": BOTH_SIDES, "advantages": [1.0, -2.0, -4.0]},
            ("log_probs",),
        ),
        Probe("And for good tokens?", {**PPO, "log_probs": BOTH_SIDES, "advantages": [1.0, 2.0, 4.0]}, ("log_probs",)),
        Probe(
            "Which arguments must receive no gradient?",
            {**PPO, "log_probs": [-0.9, -1.0, -1.1], "advantages": [1.0, -2.0, 4.0]},
            ("log_probs", "old_log_probs", "advantages"),
        ),
        Probe(
            "What is the interval if its width is another one, or not given?",
            {**PPO, "log_probs": [-0.7, -1.0, -1.4], "advantages": [1.0, 1.0, -1.0], "clip_epsilon": 0.5},
        ),
        Probe(
            "Its default?",
            {"log_probs": BOTH_SIDES, "old_log_probs": PPO["old_log_probs"], "advantages": [1.0, 1.0, -1.0]},
        ),
        Probe(
            "By what is divided when a mask leaves tokens out?",
            {**PPO, "log_probs": BOTH_SIDES, "advantages": [1.0, -2.0, 4.0], "mask": [True, True, False]},
        ),
        Probe(
            "What may stand in the places that the mask leaves out?",
            {
                "log_probs": [-0.9, -1.2, NAN],
                "old_log_probs": [-1.0, -1.0, NAN],
                "advantages": [1.0, -2.0, NAN],
                "mask": [True, True, False],
            },
            ("log_probs",),
        ),
        Probe(
            "What of rows of different lengths?",
            {
                "log_probs": [BOTH_SIDES, BOTH_SIDES],
                "old_log_probs": [PPO["old_log_probs"]] * 2,
                "advantages": [GOOD, BAD],
                "mask": [[True, True, True], [True, False, False]],
            },
        ),
    ),
    "compute_rewards": (
        Probe(
            "Where does the score go, if the KL costs nothing?", {**REWARDS, "mask": [[True] * 3] * 2, "kl_coef": 0.0}
        ),
        Probe("What does each token cost, and with which sign?", {**REWARDS, "scores": [0.0, 0.0], "kl_coef": 0.25}),
        Probe("Where is the last token of a shorter response?", {**REWARDS, "kl_coef": 0.25}),
        Probe("What happens to a score beyond the clip, on either side?", {**REWARDS, **FAR, "scores": [9.0, -9.0]}),
        Probe(
            "What happens to a large KL?",
            {**REWARDS, **FAR, "ref_log_probs": [[-20.0, -1.0, -1.0], [-1.0, -30.0, -1.0]]},
        ),
        Probe(
            "What may stand in the padding?",
            {
                **REWARDS,
                **FAR,
                "log_probs": [[-1.0, -2.0, -0.5], [-1.5, -0.25, NAN]],
                "ref_log_probs": [[-2.0, -1.5, -1.0], [-1.0, -1.0, NAN]],
            },
        ),
        Probe(
            "Where is the last token if the mask has a gap?",
            {**REWARDS, **FAR, "mask": [[True, False, True], [False, True, True]]},
        ),
        Probe("What does the estimator k2 change?", {**REWARDS, **FAR, "estimator": "k2"}),
        Probe("And k3?", {**REWARDS, **FAR, "estimator": "k3"}),
        Probe("What are the coefficients if they are not given?", {**REWARDS, "scores": [7.0, -6.0]}),
        Probe("What flows back through the rewards?", {**REWARDS, **FAR}, ("scores", "log_probs", "ref_log_probs")),
    ),
    "response_mask": (
        Probe("What is real if no token stops?", {"responses": [[5, 6, 7, 8]], "stop_token_ids": (2,)}),
        Probe("Is the token that stops itself real?", {"responses": [[5, 6, 2, 8]], "stop_token_ids": (2,)}),
        Probe("What if the first or the last token stops?", {"responses": [[2, 5, 6, 7]], "stop_token_ids": (2,)}),
        Probe("The last?", {"responses": [[5, 6, 7, 2]], "stop_token_ids": (2,)}),
        Probe("What if a token that stops comes twice?", {"responses": [[5, 2, 6, 2]], "stop_token_ids": (2,)}),
        Probe("What if padding and stop are one id?", {"responses": [[5, 2, 2, 2]], "stop_token_ids": (2,)}),
        Probe("What if several ids stop a response?", {"responses": [[5, 3, 6, 2]], "stop_token_ids": (2, 3)}),
        Probe("In the other order?", {"responses": [[5, 2, 3, 6]], "stop_token_ids": (3, 2)}),
        Probe(
            "Does each row have an end of its own?",
            {"responses": [[5, 2, 6, 7], [5, 6, 7, 8], [2, 2, 5, 6], [5, 6, 7, 2]], "stop_token_ids": (2,)},
        ),
        Probe("What if no id stops a response?", {"responses": [[5, 2, 0, 1]], "stop_token_ids": ()}),
        Probe(
            "Does it hold for ids such as 0, for one column and for many?",
            {"responses": [[0, 5, 6, 7, 8, 9, 10, 11, 12], [5, 6, 7, 8, 9, 10, 11, 0, 0]], "stop_token_ids": (0,)},
        ),
    ),
}
"""By function."""
