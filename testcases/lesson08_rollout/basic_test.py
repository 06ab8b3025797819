"""Lesson 8, by hand: scripted policies whose every probability is known, and a tiny language model for positions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from testcases.engine import call, reference, scenario, worth
from tutorial.lesson08_rollout import (
    Experience,
    ExperienceBuffer,
    collect_experience,
    evaluate_responses,
    generate,
    sample_token,
)

NAN = math.nan
LOG2 = math.log(2)
OUT = -math.inf


def logs(*weights: list[float]) -> Tensor:
    """Logits of rows of weights: softmax gives the weights back, divided by their sum."""
    return torch.tensor(weights, dtype=torch.float64).log()


# sample_token: 6,000 draws from each row, their shares rounded to tenths


@pytest.mark.parametrize(
    "weights, options, shares",
    [
        pytest.param([5.0, 3.0, 2.0], {}, [0.5, 0.3, 0.2], id="softmax-of-the-logits"),
        pytest.param([2.0, 5.0, 0.0, 3.0], {}, [0.2, 0.5, 0.0, 0.3], id="an-impossible-token-never-comes"),
        # Divided by 0.5, logits are doubled and weights squared
        pytest.param(
            [6.0**0.5, 3.0**0.5, 1.0], {"temperature": 0.5}, [0.6, 0.3, 0.1], id="low-temperature-squares-the-weights"
        ),
        pytest.param([36.0, 9.0, 1.0], {"temperature": 2.0}, [0.6, 0.3, 0.1], id="high-temperature-takes-the-root"),
        pytest.param([2.0, 6.0, 1.0, 4.0], {"top_k": 2}, [0.0, 0.6, 0.0, 0.4], id="top-k-2-keeps-two-and-rescales"),
        pytest.param([2.0, 6.0, 1.0, 4.0], {"top_k": 1}, [0.0, 1.0, 0.0, 0.0], id="top-k-1-takes-the-likeliest"),
        # Three tokens share the second place: none of them is likelier than the others, so all stay.
        pytest.param([2.0, 4.0, 2.0, 2.0], {"top_k": 2}, [0.2, 0.4, 0.2, 0.2], id="top-k-keeps-ties"),
        pytest.param([5.0, 3.0, 2.0], {"top_k": 0}, [0.5, 0.3, 0.2], id="top-k-0-keeps-all"),
        pytest.param([5.0, 3.0, 2.0], {"top_k": 3}, [0.5, 0.3, 0.2], id="top-k-of-the-whole-vocabulary"),
        pytest.param([5.0, 3.0, 2.0], {"top_k": 50}, [0.5, 0.3, 0.2], id="top-k-beyond-the-vocabulary"),
        # 6/13 = 0.46 is not 0.7; with 4/13 it is 0.77: the token that crosses 0.7 stays
        pytest.param(
            [2.0, 6.0, 1.0, 4.0], {"top_p": 0.7}, [0.0, 0.6, 0.0, 0.4], id="top-p-keeps-the-token-that-crosses"
        ),
        pytest.param([2.0, 6.0, 1.0, 4.0], {"top_p": 0.01}, [0.0, 1.0, 0.0, 0.0], id="top-p-keeps-at-least-one"),
        # 0.5 reaches 0.5: the fewest that reach it are one
        pytest.param([1.0, 2.0, 1.0], {"top_p": 0.5}, [0.0, 1.0, 0.0], id="top-p-reached-exactly"),
        pytest.param([5.0, 3.0, 2.0], {"top_p": 1.0}, [0.5, 0.3, 0.2], id="top-p-1-keeps-all"),
    ],
)
@worth(4)
def test_sample_token_shares_by_hand(weights, options, shares):
    call(scenario("shares", of=sample_token), logits=logs(weights), seed=1, **options).equals([shares])


@pytest.mark.parametrize(
    "weights, options, shares",
    [
        # T = 2 turns 25, 9, 1, 4 into 5, 3, 1, 2 of 11: two of them have 0.73, three 0.91. At T = 1 two have 0.87.
        pytest.param(
            [25.0, 9.0, 1.0, 4.0],
            {"temperature": 2.0, "top_p": 0.8},
            [0.5, 0.3, 0.0, 0.2],
            id="temperature-before-top-p",
        ),
        # top_k leaves 4 and 3; of these 4/7 = 0.57 reaches 0.5 alone. Of all ten 0.4 would not.
        pytest.param(
            [1.0, 4.0, 2.0, 3.0], {"top_k": 2, "top_p": 0.5}, [0.0, 1.0, 0.0, 0.0], id="top-p-of-what-top-k-left"
        ),
    ],
)
@worth(2)
def test_sample_token_cuts_in_the_right_order(weights, options, shares):
    call(scenario("shares", of=sample_token), logits=logs(weights), seed=2, **options).equals([shares])


def test_sample_token_keeps_rows_apart():
    # The same two tokens at other places, and a certain one; then rows of which two and four tokens are kept.
    weights = [[2.0, 6.0, 1.0, 4.0], [6.0, 1.0, 4.0, 2.0], [0.0, 0.0, 0.0, 7.0]]
    shares = [[0.0, 0.6, 0.0, 0.4], [0.6, 0.0, 0.4, 0.0], [0.0, 0.0, 0.0, 1.0]]
    call(scenario("shares", of=sample_token), logits=logs(*weights), seed=3, top_p=0.7).equals(shares)
    weights, shares = [[2.0, 6.0, 1.0, 4.0], [2.0, 4.0, 2.0, 2.0]], [[0.0, 0.6, 0.0, 0.4], [0.2, 0.4, 0.2, 0.2]]
    call(scenario("shares", of=sample_token), logits=logs(*weights), seed=3, top_k=2).equals(shares)


def test_sample_token_draws_each_row_from_the_generator():
    answer = call(scenario("agreement", of=sample_token), logits=logs([3.0, 2.0, 2.0, 3.0]), seed=4)
    answer.equals({"same seed": True, "same generator once more": False, "other seed": False})
    answer.leaves_global_random_alone()


def test_sample_token_gives_one_number_for_each_row():
    # Rows of one token each but the last: (4,) int64
    call(sample_token, [[0.0, OUT, OUT], [OUT, OUT, 0.0], [OUT, 5.0, OUT], [OUT, OUT, -3.0]]).equals([0, 2, 1, 2])
    call(sample_token, torch.tensor([[0.5, 3.0, 1.0]]), 1.0, 1).equals([1])


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


def log_probs_of(mask: list[list[bool]], temperature: float = 1.0) -> list[list[float]]:
    """log p^(1/T) / (p^(1/T) + 4 ((1 - p) / 4)^(1/T)) on real tokens, 0 elsewhere."""
    found = []
    for row, real in enumerate(mask):
        found.append([])
        for step, is_real in enumerate(real):
            p = probability(row, step)
            chosen, rest = p ** (1 / temperature), 4 * ((1 - p) / 4) ** (1 / temperature)
            found[-1].append(math.log(chosen / (chosen + rest)) if is_real else 0.0)
    return found


T, F = True, False
PROMPTS = [[2, 3], [4, 2]]


@pytest.mark.parametrize(
    "rows, stops, pad, responses, mask",
    [
        pytest.param(
            [[2, 3, 1, 4], [3, 1, 4, 2]],
            (1,),
            0,
            [[2, 3, 1], [3, 1, 0]],
            [[T, T, T], [T, T, F]],
            id="the-stop-token-is-included-and-the-last-row-ends-it",
        ),
        pytest.param(
            [[2, 3, 2, 4], [3, 3, 4, 2]],
            (1,),
            0,
            [[2, 3, 2, 4], [3, 3, 4, 2]],
            [[T, T, T, T], [T, T, T, T]],
            id="cut-at-max-new-tokens",
        ),
        pytest.param(
            [[2, 3, 4, 3], [3, 1, 2, 2]],
            (1, 4),
            0,
            [[2, 3, 4], [3, 1, 0]],
            [[T, T, T], [T, T, F]],
            id="any-of-several-stop-tokens",
        ),
        pytest.param(
            [[2, 3, 1, 3], [1, 2, 4, 3]],
            (1,),
            1,
            [[2, 3, 1], [1, 1, 1]],
            [[T, T, T], [T, F, F]],
            id="pad-is-the-stop-token",
        ),
        pytest.param(
            [[0, 3, 1, 3], [2, 0, 0, 1]],
            (1,),
            0,
            [[0, 3, 1, 0], [2, 0, 0, 1]],
            [[T, T, T, F], [T, T, T, T]],
            id="a-sampled-pad-is-a-real-token",
        ),
        pytest.param(
            [[1, 2, 1, 3], [2, 2, 1, 3]],
            (1,),
            4,
            [[1, 4, 4], [2, 2, 1]],
            [[T, F, F], [T, T, T]],
            id="nothing-after-the-first-stop-counts",
        ),
        pytest.param([[1, 2, 2], [1, 3, 3]], (1,), 0, [[1], [1]], [[T], [T]], id="all-stop-at-once"),
    ],
)
@worth(4)
def test_generate_by_hand(rows, stops, pad, responses, mask):
    answer = call(
        scenario("scripted", of=generate),
        script=script(*rows),
        input_ids=PROMPTS,
        max_new_tokens=len(rows[0]),
        stop_token_ids=stops,
        pad_token_id=pad,
        top_k=1,
    )
    answer.equals(responses=responses, log_probs=log_probs_of(mask), mask=mask)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_generate_log_probs_are_tempered_but_not_cut(temperature):
    # top_k = 1 leaves one token; the log-probability is still that of the whole tempered distribution.
    answer = call(
        scenario("scripted", of=generate),
        script=script([2, 3, 1, 4], [3, 1, 4, 2]),
        input_ids=PROMPTS,
        max_new_tokens=4,
        stop_token_ids=(1,),
        pad_token_id=0,
        temperature=temperature,
        top_k=1,
    )
    answer.part("log_probs").equals(log_probs_of([[T, T, T], [T, T, F]], temperature))


@pytest.mark.parametrize("max_new_tokens", [1, 2, 4])
def test_generate_writes_no_more_than_max_new_tokens(max_new_tokens):
    answer = call(
        scenario("scripted", of=generate),
        script=script([2, 3, 2, 4], [3, 3, 4, 2]),
        input_ids=PROMPTS,
        max_new_tokens=max_new_tokens,
        stop_token_ids=(1,),
        pad_token_id=0,
        top_k=1,
    )
    answer.part("responses").equals([row[:max_new_tokens] for row in [[2, 3, 2, 4], [3, 3, 4, 2]]])


# After 2 come 1 and 3 (weights 2 and 3); after 1 comes 0 or 1, after 3 comes 2 or 3. Token 4 does not exist: no stop.
CHAIN = logs([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 1.0, 1.0])


@worth(2)
def test_generate_samples_from_the_policy():
    answer = call(scenario("sampled_shares", of=generate), table=CHAIN, prompt=2, max_new_tokens=2, seed=1)
    answer.part("shares").equals([[0.0, 0.4, 0.0, 0.6], [0.2, 0.2, 0.3, 0.3]])
    half = math.log(0.5)
    answer.part("log_probs").equals([[0.0, math.log(0.4), 0.0, math.log(0.6)], [half, half, half, half]])


@pytest.mark.parametrize(
    "weights, options, shares, probabilities",
    [
        # 4 and 9 of 13
        pytest.param(
            [0.0, 2.0, 3.0, 0.0], {"temperature": 0.5}, [0.0, 0.3, 0.7, 0.0], [1, 4 / 13, 9 / 13, 1], id="temperature"
        ),
        pytest.param([1.0, 6.0, 4.0, 1.0], {"top_k": 2}, [0.0, 0.6, 0.4, 0.0], [1, 6 / 12, 4 / 12, 1], id="top-k"),
        pytest.param([1.0, 6.0, 4.0, 1.0], {"top_p": 0.8}, [0.0, 0.6, 0.4, 0.0], [1, 6 / 12, 4 / 12, 1], id="top-p"),
    ],
)
def test_generate_hands_its_options_to_the_sampler(weights, options, shares, probabilities):
    table = logs(weights).expand(4, 4).clone()
    answer = call(scenario("sampled_shares", of=generate), table=table, prompt=2, max_new_tokens=1, seed=2, **options)
    answer.equals({"shares": [shares], "log_probs": [[math.log(p) for p in probabilities]]})


def test_generate_draws_from_the_generator():
    answer = call(scenario("generate_agreement", of=generate), table=CHAIN, seed=3)
    answer.equals({"same seed": True, "same generator once more": False, "other seed": False})
    answer.leaves_global_random_alone()
    # Without one, torch.manual_seed decides.
    call(scenario("generate_agreement_without_generator", of=generate), table=CHAIN).equals(
        {"same seed": True, "other seed": False}
    )


@pytest.mark.parametrize(
    "rows, columns",
    [
        pytest.param([[2, 3, 4, 2], [3, 4, 2, 2]], [3, 1, 1, 1], id="the-prompt-once-then-one-token-a-step"),
        pytest.param([[2, 1, 4, 2], [1, 4, 2, 2]], [3, 1], id="no-pass-after-all-have-stopped"),
        pytest.param([[1, 1, 1, 1], [1, 1, 1, 1]], [3], id="one-pass-for-one-token"),
    ],
)
@worth(2)
def test_generate_uses_the_cache(rows, columns):
    answer = call(
        scenario("fed_to_policy", of=generate),
        script=script(*rows),
        input_ids=[[0, 2, 3], [2, 3, 4]],
        attention_mask=[[F, T, T], [T, T, T]],
        max_new_tokens=4,
        stop_token_ids=(1,),
        pad_token_id=0,
        top_k=1,
    )
    answer.part("columns fed in each call").equals(columns)
    answer.part("cache handed back").equals(True)
    answer.part("mask wider than the text can get").equals(False)
    if columns == [3, 1, 1, 1]:
        answer.part("tokens fed after the prompt").equals([[2, 3, 4], [3, 4, 2]])


def test_generate_runs_without_dropout_and_without_gradient():
    answer = call(
        scenario("fed_to_policy", of=generate),
        script=script([2, 3, 4, 2]),
        input_ids=[[2, 3, 4]],
        attention_mask=[[T, T, T]],
        max_new_tokens=4,
        stop_token_ids=(1,),
        pad_token_id=0,
        top_k=1,
    )
    answer.part("in train mode").equals(False)
    answer.part("with gradient").equals(False)
    answer.part("can be used for training").equals(True)


@pytest.mark.parametrize(
    "training",
    [
        pytest.param([True, True, True, True], id="train"),
        pytest.param([False, False, False, False], id="eval"),
        pytest.param([True, True, True, False], id="train-with-one-module-in-eval"),
    ],
)
def test_generate_restores_the_mode(training):
    answer = call(
        scenario("mode_after", of=generate),
        script=script([2, 3, 1, 4], [3, 1, 4, 2]),
        input_ids=PROMPTS,
        training=training,
        max_new_tokens=4,
        stop_token_ids=(1,),
        pad_token_id=0,
        top_k=1,
    )
    answer.equals(training)


RAGGED_PROMPTS = [[0, 0, 0, 5], [0, 7, 3, 2], [4, 6, 8, 9]]
RAGGED_MASK = [[F, F, F, T], [F, T, T, T], [T, T, T, T]]


@worth(2)
def test_generate_does_not_see_the_padding():
    # The model has absolute positions, as GPT-2 has. Each row has to come out as it would alone, without any padding.
    options = {"max_new_tokens": 5, "stop_token_ids": (99,), "pad_token_id": 0, "top_k": 1, "temperature": 0.8}
    alone = [
        reference(
            scenario("lm_writes", of=generate),
            model=1,
            input_ids=[[token for token, real in zip(prompt, mask, strict=True) if real]],
            attention_mask=[[True] * sum(mask)],
            **options,
        )
        for prompt, mask in zip(RAGGED_PROMPTS, RAGGED_MASK, strict=True)
    ]
    answer = call(
        scenario("lm_writes", of=generate),
        model=1,
        input_ids=RAGGED_PROMPTS,
        attention_mask=RAGGED_MASK,
        **options,
    )
    answer.equals(
        responses=torch.cat([responses for responses, _, _ in alone]),
        log_probs=torch.cat([log_probs for _, log_probs, _ in alone]),
    )


# Experience.rows


def experience(prompts: list[int], responses: list[int], first: int = 0, width: int = 0) -> dict[str, Tensor]:
    """Rows of so many prompt and response tokens. Row i holds numbers from 100 (first + i) on, its score is that i."""
    count, prompt_length, length = len(prompts), max(prompts), max(*responses, width)
    start = torch.tensor(prompts)[:, None]
    real = torch.arange(length) < torch.tensor(responses)[:, None]
    visible = torch.cat([torch.arange(prompt_length) >= prompt_length - start, real], dim=1)
    row = torch.arange(first, first + count)[:, None]
    ids = (100 * row + torch.arange(prompt_length + length)).masked_fill(~visible, 0)
    numbers = {
        name: (100.0 * row.double() + 10 * place + torch.arange(length)).masked_fill(~real, 0.0)
        for place, name in enumerate(["log_probs", "ref_log_probs", "values", "rewards", "advantages", "returns"], 1)
    }
    return {
        "input_ids": ids,
        "attention_mask": visible,
        "mask": real,
        "scores": row[:, 0].double(),
        **numbers,
    }


@pytest.mark.parametrize(
    "index, prompt_columns, response_columns",
    [
        # Prompts of 1, 3, 2, 2 tokens, padded to 3; responses of 2, 1, 4, 3, padded to 4
        pytest.param([0, 1, 2, 3], slice(0, 3), slice(0, 4), id="all-rows-keep-all-columns"),
        pytest.param([0], slice(2, 3), slice(0, 2), id="one-row-loses-its-padding"),
        pytest.param([1], slice(0, 3), slice(0, 1), id="long-prompt-short-response"),
        pytest.param([2], slice(1, 3), slice(0, 4), id="short-prompt-long-response"),
        pytest.param([3, 0], slice(1, 3), slice(0, 3), id="as-long-as-the-longest-in-the-order-asked"),
        pytest.param([2, 2, 1], slice(0, 3), slice(0, 4), id="a-row-twice"),
    ],
)
@worth(3)
def test_rows_by_hand(index, prompt_columns, response_columns):
    stored = experience([1, 3, 2, 2], [2, 1, 4, 3])
    expected = {}
    for name, tensor in stored.items():
        if name in ("input_ids", "attention_mask"):
            expected[name] = torch.cat(
                [tensor[index][:, :3][:, prompt_columns], tensor[index][:, 3:][:, response_columns]], 1
            )
        else:
            expected[name] = tensor[index] if tensor.dim() == 1 else tensor[index][:, response_columns]
    call(scenario("picked", of=Experience.rows), tensors=stored, index=index).equals(expected)


def test_rows_goes_by_the_masks_not_by_the_token_ids():
    # Token 0 is a real token here, at the start of the prompt and at the end of the response; rewards may be 0 as well.
    stored = experience([2, 2], [2, 1])
    stored["input_ids"] = torch.tensor([[0, 7, 8, 0], [6, 7, 0, 0]])
    stored = {name: torch.zeros_like(t) if t.dim() == 2 and t.is_floating_point() else t for name, t in stored.items()}
    call(scenario("picked", of=Experience.rows), tensors=stored, index=[0]).equals(
        {name: tensor[:1] for name, tensor in stored.items()}
    )


def test_rows_keeps_a_masked_column_between_real_tokens():
    # The token of a tool: not the policy's, so mask is False there, but it is no padding.
    stored = experience([2, 2], [4, 4])
    stored["mask"] = torch.tensor([[T, F, T, F], [T, F, F, F]])
    cut = {name: tensor[:, :5] if tensor.shape[-1] == 6 else tensor for name, tensor in stored.items()}
    cut = {name: tensor[:, :3] if tensor.shape[-1] == 4 else tensor for name, tensor in cut.items()}
    call(scenario("picked", of=Experience.rows), tensors=stored, index=[0, 1]).equals(cut)


# ExperienceBuffer.minibatches


@pytest.mark.parametrize(
    "size, sizes",
    [
        pytest.param(1, [1, 1, 1, 1, 1], id="one-row-at-a-time"),
        pytest.param(2, [2, 2, 1], id="the-last-one-is-smaller"),
        pytest.param(3, [3, 2], id="three-and-two"),
        pytest.param(5, [5], id="all-at-once"),
        pytest.param(8, [5], id="size-beyond-the-rows"),
    ],
)
@pytest.mark.parametrize("epochs", [1, 2], ids=["first-epoch", "second-epoch"])
@worth(4)
def test_minibatches_deal_every_row_once(size, sizes, epochs):
    # Two batches: prompts of 2 and 3 tokens, responses of up to 3 and 4. Each row comes back whole, cut to its length.
    first, second = experience([2, 1], [3, 1]), experience([1, 3, 2], [2, 4, 1], first=2)
    rows = [*cut_rows([2, 1], [3, 1]), *cut_rows([1, 3, 2], [2, 4, 1], first=2)]
    answer = call(
        scenario("dealt", of=ExperienceBuffer.minibatches), batches=(first, second), size=size, seed=5, epochs=epochs
    )
    answer.part("sizes").equals(sizes)
    answer.part("rows in the buffer").equals(5)
    answer.part("columns to spare").equals(0)
    answer.part("rows").equals(tuple(rows))


def cut_rows(prompts: list[int], responses: list[int], first: int = 0) -> list[dict[str, Tensor]]:
    """Each row of `experience` without its padding."""
    whole, rows = experience(prompts, responses, first), []
    for number, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        row = {name: tensor[number] for name, tensor in whole.items()}
        start = max(prompts) - prompt
        rows.append(
            {
                name: tensor
                if tensor.dim() == 0
                else (
                    tensor[start : max(prompts) + response] if "input" in name or "att" in name else tensor[:response]
                )
                for name, tensor in row.items()
            }
        )
    return rows


@worth(2)
def test_minibatches_are_shuffled_by_the_generator():
    rows = experience([2] * 30, [3] * 30)
    answer = call(scenario("order_agreement", of=ExperienceBuffer.minibatches), batches=(rows,), size=4, seed=6)
    answer.equals(
        {
            "same seed": True,
            "same generator, next epoch": False,
            "other seed": False,
            "as they were stored": False,
            "each minibatch as it was stored": False,
            "each minibatch of neighbours": False,
            "most rows beside their neighbour": False,
        }
    )
    answer.leaves_global_random_alone()


@pytest.mark.parametrize("forget, scores", [(False, [0.0, 1.0, 2.0, 3.0, 4.0]), (True, [2.0, 3.0, 4.0])])
def test_minibatches_deal_what_is_stored_now(forget, scores):
    answer = call(
        scenario("dealt_after_more", of=ExperienceBuffer.minibatches),
        first=experience([2, 1], [3, 1]),
        second=experience([1, 3, 2], [2, 4, 1], first=2),
        forget=forget,
        seed=7,
    )
    answer.equals(scores)


# evaluate_responses. 0 pads, 1 stops. The reference: after 2 comes 3 with probability 1/2, after 3 comes 1 with 1/4,
# after 4 comes 1 with 1/2. The price is 0.5 for each bit. What stands in the rows of 0 and 1 (after the end) is NaN.
REFERENCE = logs([NAN] * 5, [NAN] * 5, [0.0, 1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 2.0, 0.0, 1.0], [0.0, 2.0, 1.0, 1.0, 0.0])
WORTH = [NAN, NAN, 1.0, 2.0, 4.0]
PER_BIT = 0.5 / LOG2
CASE = {
    "input_ids": [[0, 2], [3, 4]],
    "attention_mask": [[F, T], [T, T]],
    "responses": [[3, 1, 0], [1, 0, 0]],
    "log_probs": [[-2 * LOG2, -LOG2, 0.0], [-3 * LOG2, 0.0, 0.0]],
    "mask": [[T, T, F], [T, F, F]],
    "scores": [4.0, -2.0],
    "reference": REFERENCE,
    "worth": WORTH,
    "kl_coef": PER_BIT,
    "gamma": 0.5,
    "lam": 0.5,
}


def judged(**changed: object) -> object:
    return call(scenario("judged", of=evaluate_responses), **{**CASE, **changed})


@worth(3)
def test_evaluate_responses_by_hand():
    # Reference: 1/2, 1/4 and 1/2, so -1, -2 and -1 bits. k1 in bits: -2 + 1 = -1, -1 + 2 = 1, -3 + 1 = -2.
    # Rewards: +0.5, -0.5 + 4 = 3.5; +1 - 2 = -1. Values: V after 2 is 1, after 3 is 2; after 4 is 4.
    # delta 3.5 - 2 = 1.5, 0.5 + 0.5 * 2 - 1 = 0.5; advantages 0.5 + 1.5 / 4 = 0.875. Second row: -1 - 4 = -5.
    judged().equals(
        {
            "input_ids": [[0, 2, 3, 1, 0], [3, 4, 1, 0, 0]],
            "attention_mask": [[F, T, T, T, F], [T, T, T, F, F]],
            "mask": [[T, T, F], [T, F, F]],
            "log_probs": [[-2 * LOG2, -LOG2, 0.0], [-3 * LOG2, 0.0, 0.0]],
            "ref_log_probs": [[-LOG2, -2 * LOG2, 0.0], [-LOG2, 0.0, 0.0]],
            "values": [[1.0, 2.0, 0.0], [4.0, 0.0, 0.0]],
            "scores": [4.0, -2.0],
            "rewards": [[0.5, 3.5, 0.0], [-1.0, 0.0, 0.0]],
            "advantages": [[0.875, 1.5, 0.0], [-5.0, 0.0, 0.0]],
            "returns": [[1.875, 3.5, 0.0], [-1.0, 0.0, 0.0]],
        }
    )


@pytest.mark.parametrize(
    "changed, rewards",
    [
        # Scores 4 and -2 become 3 and -2
        pytest.param({"clip_score": 3.0}, [[0.5, 2.5, 0.0], [-1.0, 0.0, 0.0]], id="the-score-is-clipped"),
        pytest.param({"scores": [9.0, -8.0]}, [[0.5, 4.5, 0.0], [-4.0, 0.0, 0.0]], id="clip-score-is-5"),
        pytest.param({"kl_coef": 0.0}, [[0.0, 4.0, 0.0], [-2.0, 0.0, 0.0]], id="without-a-price-only-the-score"),
        pytest.param({"kl_coef": 2 * PER_BIT}, [[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]], id="twice-the-price"),
        # k2 = r^2 / 2 with r = -1, 1, -2 bits: price 0.5 / LOG2 of LOG2^2 / 2, LOG2^2 / 2, 2 LOG2^2
        pytest.param(
            {"kl_estimator": "k2"}, [[-LOG2 / 4, 4 - LOG2 / 4, 0.0], [-2 - LOG2, 0.0, 0.0]], id="kl-estimator-k2"
        ),
        pytest.param(
            {"stop_token_ids": (2, 1)}, [[0.5, 3.5, 0.0], [-1.0, 0.0, 0.0]], id="any-stop-token-saves-the-penalty"
        ),
        pytest.param(
            {"stop_token_ids": (3,)}, [[0.5, 3.5, 0.0], [-2.0, 0.0, 0.0]], id="missing-stop-costs-1-by-default"
        ),
        pytest.param(
            {"stop_token_ids": (2,), "missing_stop_penalty": 0.25},
            [[0.5, 3.25, 0.0], [-1.25, 0.0, 0.0]],
            id="missing-stop-penalty",
        ),
        # 7 - 3 = 4, and the clip at 5 changes nothing; clipped first it would be 5 - 3 = 2
        pytest.param(
            {"stop_token_ids": (2,), "missing_stop_penalty": 3.0, "scores": [7.0, 0.0]},
            [[0.5, 3.5, 0.0], [-2.0, 0.0, 0.0]],
            id="the-penalty-comes-before-the-clip",
        ),
    ],
)
@worth(2)
def test_evaluate_responses_makes_the_rewards(changed, rewards):
    answer = judged(**changed)
    answer.part("rewards").equals(rewards)
    answer.part("scores").equals(changed.get("scores", [4.0, -2.0]))


def test_evaluate_responses_tempers_the_reference():
    # T = 0.5 squares the weights 2, 1, 1 to 4, 1, 1: 2/3, 1/6 and 2/3
    answer = judged(temperature=0.5)
    high, low = math.log(2 / 3), math.log(1 / 6)
    answer.part("ref_log_probs").equals([[high, low, 0.0], [high, 0.0, 0.0]])
    answer.part("log_probs").equals(CASE["log_probs"])


@worth(2)
def test_evaluate_responses_whitens_the_rewards_but_keeps_their_mean():
    # Rewards 0.5, 3.5, -1: mean 1, squares of the differences 0.25 + 6.25 + 4 = 10.5, variance 5.25
    scale = (5.25 + 1e-8) ** -0.5
    first, last, other = 1 - 0.5 * scale, 1 + 2.5 * scale, 1 - 2 * scale
    answer = judged(whiten_rewards=True)
    answer.part("rewards").equals([[first, last, 0.0], [other, 0.0, 0.0]])
    # delta: last - 2 and first + 0.5 * 2 - 1 = first
    answer.part("advantages").equals([[first + (last - 2) / 4, last - 2, 0.0], [other - 4, 0.0, 0.0]])
    answer.part("returns").equals([[1 + first + (last - 2) / 4, last, 0.0], [other, 0.0, 0.0]])
    answer.part("scores").equals([4.0, -2.0])


def test_evaluate_responses_where_gamma_and_lam_differ():
    # delta 1.5 and 0.5; 0.5 + 0.5 * 0.8 * 1.5 = 1.1
    judged(lam=0.8).part("advantages").equals([[1.1, 1.5, 0.0], [-5.0, 0.0, 0.0]])
    # delta 1.5 and 0.5 + 0.8 * 2 - 1 = 1.1; 1.1 + 0.8 * 0.5 * 1.5 = 1.7
    judged(gamma=0.8).part("advantages").equals([[1.7, 1.5, 0.0], [-5.0, 0.0, 0.0]])


def test_evaluate_responses_defaults_are_gamma_1_and_lam_095():
    # delta 1.5 and 0.5 + 2 - 1 = 1.5; 1.5 + 0.95 * 1.5 = 2.925
    plain = {name: value for name, value in CASE.items() if name not in ("gamma", "lam")}
    answer = call(scenario("judged", of=evaluate_responses), **plain)
    answer.part("advantages").equals([[2.925, 1.5, 0.0], [-5.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    "responses, mask, pad",
    [
        pytest.param([[3, 1, 0], [1, 0, 0]], [[T, T, F], [T, F, F]], 0, id="prompt-and-response"),
        pytest.param([[3, 0, 1], [0, 1, 0]], [[T, T, T], [T, T, F]], 0, id="a-sampled-pad-is-text"),
        pytest.param([[3, 1, 1], [1, 1, 1]], [[T, T, F], [T, F, F]], 1, id="pad-is-the-stop-token"),
    ],
)
def test_evaluate_responses_shows_the_reward_model_the_whole_text(responses, mask, pad):
    answer = call(
        scenario("seen_by_score", of=evaluate_responses),
        input_ids=[[pad, 2], [3, 4]],
        attention_mask=[[F, T], [T, T]],
        responses=responses,
        mask=mask,
        pad_token_id=pad,
    )
    text = torch.tensor([[pad, 2, *responses[0]], [3, 4, *responses[1]]])
    visible = torch.tensor([[F, T, *mask[0]], [T, T, *mask[1]]])
    answer.equals(
        {
            "times asked": 1,
            "input_ids": text,
            "attention_mask": visible,
            "prompt_length": 2,
            "modes as before": True,
            "all in train mode": False,
            "mode of the reference as before": True,
            "can be used for training": True,
        }
    )


@pytest.mark.parametrize(
    "training", [[True, True, False, True], [False, False, True, False]], ids=["mixed", "mostly-eval"]
)
def test_evaluate_responses_restores_the_modes_after_an_error(training):
    # The critic breaks.
    answer = call(scenario("modes_after_an_error_of_the_critic", of=evaluate_responses), training=training)
    answer.equals(training)


def test_evaluate_responses_of_a_critic_in_bfloat16():
    # 1, 2 and 4 are the same in 16 bits, so everything else is as by hand.
    answer = judged(worth=torch.tensor(WORTH, dtype=torch.bfloat16))
    answer.part("values").equals([[1.0, 2.0, 0.0], [4.0, 0.0, 0.0]])
    answer.part("advantages").equals([[0.875, 1.5, 0.0], [-5.0, 0.0, 0.0]])


def test_evaluate_responses_of_a_lora_policy_switches_its_adapter_off():
    # The base gives 1/2 and 1/4 where the adapted policy gives 1/4 and 1/2.
    answer = call(
        scenario("judged_by_its_own_base", of=evaluate_responses),
        input_ids=[[2]],
        responses=[[3, 1]],
        table=logs(*[[1.0, 2.0, 0.0, 1.0]] * 4),
        base=logs(*[[1.0, 1.0, 0.0, 2.0]] * 4),
    )
    answer.equals({"ref_log_probs": [[-LOG2, -2 * LOG2]], "adapter on": True})


# collect_experience: the policy says 3 after 2, 1 after 3, and 3 after 4, always, so its log-probs are 0.
CERTAIN = logs(
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 1.0, 0.0],
    [0.0, 1.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 1.0, 0.0],
)
READER = logs([1.0] * 5, [1.0] * 5, [0.0, 1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 2.0, 0.0, 1.0], [0.0, 2.0, 1.0, 1.0, 0.0])
ROLLOUT = {
    "input_ids": [[0, 2], [4, 3]],
    "attention_mask": [[F, T], [T, T]],
    "table": CERTAIN,
    "reference": READER,
    "worth": [9.0, 8.0, 1.0, 2.0, 4.0],
    "scores": [4.0, -2.0],
    "kl_coef": PER_BIT,
    "seed": 0,
    "gamma": 0.5,
    "lam": 0.5,
}


@worth(3)
def test_collect_experience_by_hand():
    # Responses: 3, 1 and 1. The reference gives 1/2, 1/4 and 1/4; k1 is 1, 2 and 2 bits, which cost 0.5, 1 and 1.
    # delta 3 - 2 = 1, -0.5 + 0.5 * 2 - 1 = -0.5; advantages -0.5 + 1 / 4. Second row: -3 - 2.
    call(scenario("collected", of=collect_experience), **ROLLOUT).equals(
        {
            "input_ids": [[0, 2, 3, 1], [4, 3, 1, 0]],
            "attention_mask": [[F, T, T, T], [T, T, T, F]],
            "mask": [[T, T], [T, F]],
            "log_probs": [[0.0, 0.0], [0.0, 0.0]],
            "ref_log_probs": [[-LOG2, -2 * LOG2], [-2 * LOG2, 0.0]],
            "values": [[1.0, 2.0], [2.0, 0.0]],
            "scores": [4.0, -2.0],
            "rewards": [[-0.5, 3.0], [-3.0, 0.0]],
            "advantages": [[-0.25, 1.0], [-5.0, 0.0]],
            "returns": [[0.75, 3.0], [-3.0, 0.0]],
        }
    )


@pytest.mark.parametrize(
    "changed, input_ids, rewards",
    [
        pytest.param(
            {"max_new_tokens": 1},
            [[0, 2, 3], [4, 3, 1]],
            # The first never stopped: 4 - 1 - 0.5
            [[2.5], [-3.0]],
            id="max-new-tokens",
        ),
        pytest.param({"pad_token_id": 4}, [[0, 2, 3, 1], [4, 3, 1, 4]], [[-0.5, 3.0], [-3.0, 0.0]], id="pad-token-id"),
        pytest.param(
            {"stop_token_ids": (4, 3), "max_new_tokens": 2},
            # 3 stops the first row at once; the second says 1, then 2, and never stops: -2 - 1 on its last token
            [[0, 2, 3, 0], [4, 3, 1, 2]],
            [[3.5, 0.0], [-1.0, -3 - 0.5 * math.log2(5)]],
            id="stop-token-ids",
        ),
        pytest.param({"kl_coef": 0.0}, [[0, 2, 3, 1], [4, 3, 1, 0]], [[0.0, 4.0], [-2.0, 0.0]], id="kl-coef"),
    ],
)
@worth(2)
def test_collect_experience_uses_its_settings(changed, input_ids, rewards):
    answer = call(scenario("collected", of=collect_experience), **{**ROLLOUT, **changed})
    answer.part("input_ids").equals(input_ids)
    answer.part("rewards").equals(rewards)


@worth(2)
def test_collect_experience_stores_the_log_probs_of_the_policy_that_sampled():
    # The policy: 2 and 3 of 5; tempered 4 and 9 of 13. The reference: 3 and 1 of 4; tempered 9 and 1 of 10.
    answer = call(
        scenario("collected_shares", of=collect_experience),
        table=logs([0.0, 0.0, 2.0, 3.0]).expand(4, 4).clone(),
        reference=logs([0.0, 0.0, 3.0, 1.0]).expand(4, 4).clone(),
        prompt=2,
        seed=1,
        temperature=0.5,
        max_new_tokens=1,
    )
    answer.part("shares").equals([[0.0, 0.0, 0.3, 0.7]])
    answer.part("log_probs").equals([[0.0, 0.0, math.log(4 / 13), math.log(9 / 13)]])
    answer.part("ref_log_probs").equals([[0.0, 0.0, math.log(9 / 10), math.log(1 / 10)]])
    answer.part("can be used for training").equals(True)


def test_collect_experience_draws_from_the_generator():
    answer = call(scenario("collected_agreement", of=collect_experience), table=CHAIN, seed=3)
    answer.equals({"same seed": True, "same generator once more": False, "other seed": False})
    answer.leaves_global_random_alone()
    call(scenario("collected_agreement_without_generator", of=collect_experience), table=CHAIN).equals(
        {"same seed": True, "other seed": False}
    )


@pytest.mark.parametrize(
    "training", [[True, True, False, True], [False, False, True, False]], ids=["mixed", "mostly-eval"]
)
def test_collect_experience_restores_the_modes(training):
    answer = call(scenario("modes_after_collecting", of=collect_experience), table=CERTAIN, training=training)
    answer.equals(training)
