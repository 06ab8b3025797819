"""Lesson 8, by hand: scripted policies whose every probability is known, and a tiny language model for positions."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.suite.asserts import assert_equal, assert_leaves_global_random_alone, named, reference, scenario
from testcases.lesson08_rollout.examples import UNEVEN, logs
from tutorial.lesson08_rollout import generate, sample_token

T, F = True, False
OUT = -math.inf

# sample_token: 3,000 draws from each row, their shares rounded to tenths


@named(
    "weights, options, shares",
    {
        "softmax-of-the-logits": ([5.0, 3.0, 2.0], {}, [0.5, 0.3, 0.2]),
        "an-impossible-token-never-comes": ([2.0, 5.0, 0.0, 3.0], {}, [0.2, 0.5, 0.0, 0.3]),
        # Divided by 0.5, logits are doubled and weights squared
        "low-temperature-squares-the-weights": ([6.0**0.5, 3.0**0.5, 1.0], {"temperature": 0.5}, [0.6, 0.3, 0.1]),
        "top-k-2-keeps-two-and-rescales": ([2.0, 6.0, 1.0, 4.0], {"top_k": 2}, [0.0, 0.6, 0.0, 0.4]),
        "top-k-1-takes-the-most-likely": ([2.0, 6.0, 1.0, 4.0], {"top_k": 1}, [0.0, 1.0, 0.0, 0.0]),
        # Three tokens share the second place: none of them is more likely than the others, so all stay.
        "top-k-keeps-ties": ([2.0, 4.0, 2.0, 2.0], {"top_k": 2}, [0.2, 0.4, 0.2, 0.2]),
        "top-k-beyond-the-vocabulary": ([5.0, 3.0, 2.0], {"top_k": 50}, [0.5, 0.3, 0.2]),
        # 6/13 = 0.46 is not 0.7; with 4/13 it is 0.77: the token that crosses 0.7 stays
        "top-p-keeps-the-token-that-crosses": ([2.0, 6.0, 1.0, 4.0], {"top_p": 0.7}, [0.0, 0.6, 0.0, 0.4]),
        "top-p-keeps-at-least-one": ([2.0, 6.0, 1.0, 4.0], {"top_p": 0.01}, [0.0, 1.0, 0.0, 0.0]),
        # T = 2 turns 25, 9, 1, 4 into 5, 3, 1, 2 of 11: two of them have 0.73, three 0.91. At T = 1 two have 0.87.
        "temperature-before-top-p": ([25.0, 9.0, 1.0, 4.0], {"temperature": 2.0, "top_p": 0.8}, [0.5, 0.3, 0.0, 0.2]),
        # top_k leaves 4 and 3; of these 4/7 = 0.57 reaches 0.5 alone. Of all ten 0.4 would not.
        "top-p-of-what-top-k-left": ([1.0, 4.0, 2.0, 3.0], {"top_k": 2, "top_p": 0.5}, [0.0, 1.0, 0.0, 0.0]),
    },
)
@pytest.mark.points(7)
def test_sample_token_shares_by_hand(weights, options, shares):
    assert_equal(scenario("shares", of=sample_token)(logits=logs(weights), seed=1, **options), [shares])


@pytest.mark.points(2)
def test_sample_token_keeps_rows_apart():
    # The same two tokens at other places, with larger logits, and a certain one.
    weights = [[2.0, 6.0, 1.0, 4.0], [60.0, 10.0, 40.0, 20.0], [0.0, 0.0, 0.0, 7.0]]
    shares = [[0.0, 0.6, 0.0, 0.4], [0.6, 0.0, 0.4, 0.0], [0.0, 0.0, 0.0, 1.0]]
    for options in ({"top_p": 0.7}, {"top_k": 2}):
        assert_equal(scenario("shares", of=sample_token)(logits=logs(*weights), seed=3, **options), shares)


AGREEMENT = {"same seed": True, "same generator once more": False, "other seed": False}


def test_sample_token_draws_each_row_from_the_generator():
    answer = scenario("agreement", of=sample_token)(logits=UNEVEN[:1], seed=0)
    assert_equal(answer, {**AGREEMENT, "always the same for one row": False})
    assert_leaves_global_random_alone(answer)


def test_sample_token_gives_one_number_for_each_row():
    # Rows of one token each but the last: (4,) int64
    assert_equal(sample_token([[0.0, OUT, OUT], [OUT, OUT, 0.0], [OUT, 5.0, OUT], [OUT, OUT, -1e30]]), [0, 2, 1, 2])
    assert_equal(sample_token(torch.tensor([[0.5, 3.0, 1.0]]), 1.0, 1), [1])


# generate: at each step the script's token has this probability, the four others share the rest


def probability(row: int, step: int) -> float:
    return 0.5 + 0.1 * step + 0.02 * row


def script(*rows: list[int]) -> Tensor:
    """Logits (B, steps, 5)."""
    steps = []
    for row, tokens in enumerate(rows):
        for step, token in enumerate(tokens):
            p = probability(row, step)
            steps.append([p if other == token else (1 - p) / 4 for other in range(5)])
    return logs(*steps).reshape(len(rows), len(rows[0]), 5)


def log_probs_of(lengths: list[int], temperature: float = 1.0) -> list[list[float]]:
    """log p^(1/T) / (p^(1/T) + 4 ((1 - p) / 4)^(1/T)) on so many tokens of each row, then 0."""
    found = []
    for row, length in enumerate(lengths):
        found.append([0.0] * max(lengths))
        for step in range(length):
            p = probability(row, step)
            chosen, rest = p ** (1 / temperature), 4 * ((1 - p) / 4) ** (1 / temperature)
            found[-1][step] = math.log(chosen / (chosen + rest))
    return found


PROMPTS = [[2, 3], [4, 2]]
FOUR_TOKENS = {"max_new_tokens": 4, "stop_token_ids": (1,), "pad_token_id": 0, "top_k": 1}
SCRIPTED = scenario("scripted", of=generate)
FED_TO_POLICY = scenario("fed_to_policy", of=generate)
WATCHED = {
    "input_ids": [[0, 2, 3], [2, 3, 4]],
    "attention_mask": [[F, T, T], [T, T, T]],
    "training": [False, True, True, True],
    **FOUR_TOKENS,
}


@named(
    "rows, stops, pad, responses, lengths",
    {
        "the-stop-token-is-included": ([[2, 3, 1, 4], [3, 1, 4, 2]], (1,), 0, [[2, 3, 1], [3, 1, 0]], [3, 2]),
        "cut-at-max-new-tokens": ([[2, 3, 2, 4], [3, 3, 4, 2]], (1,), 0, [[2, 3, 2, 4], [3, 3, 4, 2]], [4, 4]),
        "any-of-several-stop-tokens": ([[2, 3, 4, 3], [3, 1, 2, 2]], (1, 4), 0, [[2, 3, 4], [3, 1, 0]], [3, 2]),
        "pad-is-the-stop-token": ([[2, 3, 1, 3], [1, 2, 4, 3]], (1,), 1, [[2, 3, 1], [1, 1, 1]], [3, 1]),
        "a-sampled-pad-is-a-real-token": ([[0, 3, 1, 3], [2, 0, 0, 1]], (1,), 0, [[0, 3, 1, 0], [2, 0, 0, 1]], [3, 4]),
        "nothing-after-the-first-stop-counts": ([[1, 2, 1, 3], [2, 2, 1, 3]], (1,), 4, [[1, 4, 4], [2, 2, 1]], [1, 3]),
    },
)
@pytest.mark.points(7)
def test_generate_by_hand(rows, stops, pad, responses, lengths):
    options = {"max_new_tokens": len(rows[0]), "stop_token_ids": stops, "pad_token_id": pad, "top_k": 1}
    answer = SCRIPTED(script=script(*rows), input_ids=PROMPTS, **options)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    assert_equal(answer, responses=responses, log_probs=log_probs_of(lengths), mask=mask)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_generate_log_probs_are_tempered_but_not_cut(temperature):
    # top_k = 1 leaves one token; the log-probability is still that of the whole tempered distribution.
    rows = [2, 3, 1, 4], [3, 1, 4, 2]
    answer = SCRIPTED(script=script(*rows), input_ids=PROMPTS, **FOUR_TOKENS, temperature=temperature)
    assert_equal(answer.log_probs, log_probs_of([3, 2], temperature))


@named(
    "weights, options, shares, probabilities",
    {
        # 4 and 9 of 13
        "temperature": ([0.0, 2.0, 3.0, 0.0], {"temperature": 0.5}, [0.0, 0.3, 0.7, 0.0], [1, 4 / 13, 9 / 13, 1]),
        "top-k": ([1.0, 6.0, 4.0, 1.0], {"top_k": 2}, [0.0, 0.6, 0.4, 0.0], [1, 6 / 12, 4 / 12, 1]),
        "top-p": ([1.0, 6.0, 4.0, 1.0], {"top_p": 0.8}, [0.0, 0.6, 0.4, 0.0], [1, 6 / 12, 4 / 12, 1]),
    },
)
@pytest.mark.points(4)
def test_generate_hands_its_options_to_the_sampler(weights, options, shares, probabilities):
    table = logs(weights).expand(4, 4).clone()
    answer = scenario("sampled_shares", of=generate)(table=table, prompt=2, max_new_tokens=2, seed=2, **options)
    assert_equal(answer, {"shares": [shares] * 2, "log_probs": [[math.log(p) for p in probabilities]] * 2})


def test_generate_draws_from_the_generator():
    agreement = scenario("generate_agreement", of=generate)
    answer = agreement(table=UNEVEN, seed=0)
    assert_equal(answer, AGREEMENT)
    assert_leaves_global_random_alone(answer)
    # Without one, torch.manual_seed decides.
    assert_equal(agreement(table=UNEVEN, seed=None), {"same seed": True, "other seed": False})


@named(
    "rows, columns",
    {
        "the-prompt-once-then-one-token-a-step": ([[2, 3, 4, 2], [3, 4, 2, 2]], [3, 1, 1, 1]),
        "no-pass-after-all-have-stopped": ([[2, 1, 4, 2], [1, 4, 2, 2]], [3, 1]),
        "one-pass-for-one-token": ([[1, 1, 1, 1], [1, 1, 1, 1]], [3]),
    },
)
@pytest.mark.points(2)
def test_generate_uses_the_cache(rows, columns):
    answer = FED_TO_POLICY(script=script(*rows), **WATCHED)
    assert_equal(answer["columns fed in each call"], columns)
    assert_equal(answer["cache passed on"], True)
    assert_equal(answer["mask wider than the text can get"], False)
    if columns == [3, 1, 1, 1]:
        assert_equal(answer["tokens fed after the prompt"], [[2, 3, 4], [3, 4, 2]])


@named(
    "training",
    {
        "train": [True, True, True, True],
        "train-with-one-module-in-eval": [True, True, True, False],
        "eval-with-dropout-in-train-mode": [False, True, True, True],
    },
)
@pytest.mark.points(3)
def test_generate_runs_without_dropout_and_leaves_the_policy_as_it_is(training):
    answer = FED_TO_POLICY(script=script([2, 3, 4, 2], [3, 4, 2, 2]), **{**WATCHED, "training": training})
    assert_equal(answer["in train mode"], False)
    assert_equal(answer["with gradient"], False)
    assert_equal(answer["can be used for training"], True)
    assert_equal(answer["attributes and config as before"], True)
    assert_equal(answer["modes afterwards"], training)


RAGGED_PROMPTS = [[0, 0, 0, 5], [0, 7, 3, 2], [4, 6, 8, 9]]
RAGGED_MASK = [[F, F, F, T], [F, T, T, T], [T, T, T, T]]


@pytest.mark.points(2)
def test_generate_does_not_see_the_padding():
    # The model has absolute positions, as GPT-2 has. Each row has to come out as it would alone, without any padding.
    options = {"max_new_tokens": 5, "stop_token_ids": (99,), "pad_token_id": 0, "top_k": 1, "temperature": 0.8}
    writes, alone = scenario("lm_writes", of=generate), []
    for prompt, mask in zip(RAGGED_PROMPTS, RAGGED_MASK, strict=True):
        text = [token for token, real in zip(prompt, mask, strict=True) if real]
        alone.append(reference(writes, model=1, input_ids=[text], attention_mask=[[True] * len(text)], **options))
    answer = writes(model=1, input_ids=RAGGED_PROMPTS, attention_mask=RAGGED_MASK, **options)
    assert_equal(
        answer,
        responses=torch.cat([responses for responses, _, _ in alone]),
        log_probs=torch.cat([log_probs for _, log_probs, _ in alone]),
    )
