"""Lesson 8: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

import math

from testcases.harness.suite.asserts import scenario
from testcases.lesson08_rollout.examples import CASE, readable
from tutorial.lesson08_rollout import ExperienceBuffer, evaluate_responses, generate, sample_token

# The checks are given, above the solution; they have to stay there.
PROMPT = {"input_ids": [[4, 5, 6]], "attention_mask": [[True, True, True]], "max_new_tokens": 2}
PROMPT |= {"model": 1, "stop_token_ids": (9,), "pad_token_id": 0}
BAD_LOGITS = {
    "no-batch": ({"logits": [1.0, 2.0]}, ["logits (2,)"]),
    "with-time": ({"logits": [[[1.0, 2.0]]]}, ["logits (1, 1, 2)"]),
    "temperature-0": ({"temperature": 0.0}, ["temperature"]),
    "top-k-below-0": ({"top_k": -1}, ["top_k"]),
    "top-p-0": ({"top_p": 0.0}, ["top_p"]),
    "top-p-above-1": ({"top_p": 1.1}, ["top_p"]),
}
BAD_PROMPTS = {
    "padded-on-the-right": ({"attention_mask": [[True, True, False]]}, ["left-padded"]),
    "mask-of-another-shape": ({"attention_mask": [[True, True]]}, ["attention_mask (1, 2)"]),
    "no-token": ({"max_new_tokens": 0}, ["max_new_tokens"]),
    "beyond-the-context": ({"max_new_tokens": 22}, ["context of 24", "3 + 22"]),
    "temperature-0": ({"temperature": 0.0}, ["temperature"]),
}
STORED = {"batches": (readable([2, 1], [3, 1]),), "size": 2, "seed": 0}
BAD_BUFFERS = {"empty": ({"batches": ()}, ["experience", "got none"]), "size-0": ({"size": 0}, ["size"])}
BAD_SCORES = {
    "a-column": ({"scores": [[1.0], [2.0]]}, ["scores (2, 1)"]),
    "one-for-all": ({"scores": [1.0]}, ["2 responses", "got 1"]),
    "nan": ({"scores": [1.0, math.nan]}, ["finite"]),
}

AGREEMENT = {sample_token: 3, ExperienceBuffer.minibatches: 3}
REFUSALS = {
    sample_token: ({"logits": [[1.0, 2.0]]}, BAD_LOGITS),
    scenario("lm_writes", of=generate): (PROMPT, BAD_PROMPTS),
    scenario("yielded", of=ExperienceBuffer.minibatches): (STORED, BAD_BUFFERS),
    scenario("evaluated", of=evaluate_responses): (CASE, BAD_SCORES),
}
