"""Lesson 4: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

from tutorial.lesson04_gae import compute_gae, compute_response_gae, gae_ends, n_step_advantages, td_errors

# The checks are given, above the solution; they have to stay there.
STEPS = {"rewards": [1.0, 2.0], "values": [0.0, 0.0, 0.0], "dones": [0.0, 0.0], "gamma": 0.5}
BAD_STEPS = {
    "values-needs-one-more": ({"values": [0.0, 0.0]}, ["values (2,)", "rewards (2,)"]),
    "gamma-above-1": ({"gamma": 1.5}, ["gamma"]),
}
RESPONSE = {"rewards": [[1.0, 2.0]], "values": [[0.0, 0.0]], "mask": [[True, True]], "gamma": 0.5, "lam": 0.5}

DEFAULTS = [td_errors, gae_ends, n_step_advantages, compute_gae, compute_response_gae]
REFUSALS = {
    td_errors: (STEPS, BAD_STEPS),
    gae_ends: (STEPS, BAD_STEPS),
    n_step_advantages: ({**STEPS, "n": 2}, {**BAD_STEPS, "no-step": ({"n": 0}, ["n"])}),
    compute_gae: ({**STEPS, "lam": 0.5}, {**BAD_STEPS, "lam-above-1": ({"lam": 1.5}, ["lam"])}),
    compute_response_gae: (
        RESPONSE,
        {
            "all-masked": ({"mask": [[False, False]]}, ["at least one True"]),
            "values-as-long-as-rewards": ({"values": [[0.0, 0.0, 0.0]]}, ["values (1, 3)"]),
            "lam-above-1": ({"lam": 1.5}, ["lam"]),
        },
    ),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1)
