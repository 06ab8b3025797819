"""Ordinary inputs. What is drawn at random is asked for in a form that does not depend on *how* it is drawn: shares in
tenths, certain tokens, rows in the order of their scores. So any right sampler gives the same answers."""

import math

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, reference, scenario
from tutorial.lesson08_rollout import Experience, ExperienceBuffer, evaluate_responses, generate, sample_token

SHARES = scenario("shares", of=sample_token)
WRITES = scenario("lm_writes", of=generate)
YIELDED = scenario("yielded", of=ExperienceBuffer.minibatches)
EVALUATED = scenario("evaluated", of=evaluate_responses)
SEEN = scenario("seen_by_score", of=evaluate_responses)
AS_BEFORE = {"modes as before": True, "mode of the reference as before": True, "attributes as before": True}


def examples(seed: int) -> list[Call]:
    """Ragged rows, temperatures and discounts away from 1, prompts padded on the left, B != T and B == T."""
    draw = generator(seed)
    return [
        *_sampling(draw),
        *_scripted(draw),
        *_written_by_models(draw),
        *_sampled(draw),
        *_watched(draw),
        *_rows(draw),
        *_minibatches(draw),
        *_evaluating(draw),
        *_evaluating_by_models(draw),
        *_evaluating_in_special_cases(draw),
    ]


def logs(*weights: list[float]) -> Tensor:
    """Logits of rows of weights: softmax gives the weights back, divided by their sum."""
    return torch.tensor(weights, dtype=torch.float64).log()


# After 2 come 1 and 3 (weights 2 and 3); after 1 comes 0 or 1, after 3 comes 2 or 3. Token 4 does not exist: no stop.
CHAIN = logs([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 1.0, 1.0])


UNEVEN = logs(*[[1.0, 2.0, 3.0, 4.0]] * 4)
"""No two tokens are equally likely: who takes the most likely one always takes the same."""


LOG2 = math.log(2)
# evaluate_responses. 0 is padding, 1 stops. The reference: after 2 comes 3 with probability 1/2, after 3 comes 1 with
# 1/4, after 4 comes 1 with 1/2. The KL penalty is 0.5 for each bit. What follows 0 and 1 does not count.
REFERENCE = logs([1.0] * 5, [2.0] * 5, [0.0, 1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 2.0, 0.0, 1.0], [0.0, 2.0, 1.0, 1.0, 0.0])
WORTH = [8.0, 9.0, 1.0, 2.0, 4.0]
PER_BIT = 0.5 / LOG2
CASE = {
    "input_ids": [[0, 2], [3, 4]],
    "attention_mask": [[False, True], [True, True]],
    "responses": [[3, 1, 0], [1, 0, 0]],
    "log_probs": [[-2 * LOG2, -LOG2, 0.0], [-3 * LOG2, 0.0, 0.0]],
    "mask": [[True, True, False], [True, False, False]],
    "scores": [4.0, -2.0],
    "reference": REFERENCE,
    "worth": WORTH,
    "kl_coef": PER_BIT,
    "gamma": 0.5,
    "lam": 0.5,
}


def readable(prompts: list[int], responses: list[int], first: int = 0) -> dict[str, Tensor]:
    """Rows of so many prompt and response tokens. Row i holds numbers from 100 (first + i) on, its score is that i."""
    mask = torch.arange(max(responses)) < torch.tensor(responses)[:, None]
    visible = torch.cat([_left_padded(prompts), mask], dim=1)
    row = torch.arange(first, first + len(prompts))[:, None]
    numbers = {
        name: (100.0 * row.double() + 10 * place + torch.arange(max(responses))).masked_fill(~mask, 0.0)
        for place, name in enumerate(NUMBERS, 1)
    }
    ids = (100 * row + torch.arange(visible.shape[1])).masked_fill(~visible, 0)
    return {"input_ids": ids, "attention_mask": visible, "mask": mask, "scores": row[:, 0].double(), **numbers}


def _number(draw: torch.Generator) -> int:
    return int(torch.randint(1000, (), generator=draw))


def _weights(draw: torch.Generator, *rows: list[float]) -> Tensor:
    """Logits of rows of weights, each row with its tokens in another order."""
    mixed = [torch.tensor(row, dtype=torch.float64)[torch.randperm(len(row), generator=draw)] for row in rows]
    return torch.stack(mixed).log()


PLAIN = [[5.0, 3.0, 2.0, 0.0], [1.0, 2.0, 3.0, 4.0]]
WIDE = [[6.0, 4.0, 2.0, 1.0, 1.0], [12.0, 8.0, 3.0, 2.0, 1.0]]
SAMPLING: list[tuple[list[list[float]], dict[str, float]]] = [
    (PLAIN, {}),
    (PLAIN, {"top_k": 9}),
    (WIDE, {"top_k": 2}),
    (WIDE, {"top_p": 0.7}),
    (WIDE, {"top_p": 0.01}),
    ([[4.0, 2.0, 2.0, 2.0]], {"top_k": 2}),
    ([[3.0, 3.0, 2.0]], {"top_k": 1}),
    ([[3.0, 2.0 + 1e-6, 2.0]], {"top_k": 2}),
    ([[2.0, 1.0, 1.0]], {"top_p": 0.5}),
    ([[6.0, 4.0, 2.0]], {"top_p": 0.5001}),
    ([[36.0, 9.0, 1.0]], {"temperature": 2.0}),
    ([[6.0**0.5, 3.0**0.5, 1.0]], {"temperature": 0.5}),
    ([[25.0, 9.0, 4.0, 1.0]], {"temperature": 2.0, "top_p": 0.8}),
    ([[4.0, 3.0, 2.0, 1.0]], {"top_k": 3, "top_p": 0.42}),
]


def _sampling(draw: torch.Generator) -> list[Call]:
    agreement = scenario("agreement", of=sample_token)
    return [
        *(example(SHARES, logits=_weights(draw, *rows), seed=_number(draw), **given) for rows, given in SAMPLING),
        example(agreement, logits=_weights(draw, [1.0, 2.0, 3.0, 4.0]), seed=_number(draw)),
        example(sample_token, normal_from(draw, 5, 7), 0.7, 1),
        example(sample_token, normal_from(draw, 3, 3).float(), top_p=0.01),
        example(sample_token, torch.eye(7)[torch.randint(7, (3,), generator=draw)].log().bfloat16(), 0.7, 3, 0.9),
    ]


def _script(draw: torch.Generator, rows: int, steps: int, stops: tuple[int, ...] = ()) -> Tensor:
    """Logits over 5 tokens. The first row ends at step 1 or before, with the last of the stops; the last never ends."""
    script = normal_from(draw, rows, steps, 5)
    if stops and rows > 1:
        script[0, 1, stops[-1]] = 9
        script[-1, :, stops] = -9
    return script


def _prompts(draw: torch.Generator, lengths: list[int]) -> dict[str, Tensor]:
    """Left-padded prompts over 12 tokens; what stands on the padding is a token like any other."""
    mask = _left_padded(lengths)
    return {"input_ids": torch.randint(12, mask.shape, generator=draw), "attention_mask": mask}


def _left_padded(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) >= max(lengths) - torch.tensor(lengths)[:, None]


def _scripted(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, steps, stops, pad, temperature in (
        (3, 6, (1,), 3, 1.0),
        (4, 4, (1, 3), 0, 0.7),
        (2, 5, (2,), 2, 1.6),
        (1, 3, (), 4, 1.0),
        (1, 1, (1,), 0, 1.0),
    ):
        options = {"max_new_tokens": steps, "stop_token_ids": stops, "pad_token_id": pad, "temperature": temperature}
        prompts = torch.randint(5, (rows, 3), generator=draw)
        script = _script(draw, rows, steps, stops)
        scripted = scenario("scripted", of=generate)
        found.append(example(scripted, script=script, input_ids=prompts, seed=1, top_k=1, **options))
    return found


def _written_by_models(draw: torch.Generator) -> list[Call]:
    found = []
    for lengths, temperature in (([2, 5, 3], 0.8), ([1, 4], 1.5), ([3, 3, 3], 1.0)):
        asked = {**_prompts(draw, lengths), "model": _number(draw), "max_new_tokens": 6, "pad_token_id": 0}
        asked |= {"temperature": temperature, "top_k": 1}
        # Tokens that the model does write, so that rows end at different steps.
        free, _, _ = reference(WRITES, **asked, stop_token_ids=(99,))
        found.append(example(WRITES, **asked, stop_token_ids=(int(free[0, 2]), int(free[-1, 4]))))
        found.append(example(WRITES, **asked, stop_token_ids=(99,)))
    return found


def _sampled(draw: torch.Generator) -> list[Call]:
    shares = scenario("sampled_shares", of=generate)
    tempered = 1e-7 * logs(*[[0.0, 4.0, 9.0, 0.0]] * 4)
    cut = _weights(draw, [1.0, 6.0, 4.0, 1.0]).expand(4, 4).clone()
    return [
        example(shares, table=CHAIN, prompt=2, max_new_tokens=2, seed=_number(draw)),
        example(shares, table=tempered, prompt=2, max_new_tokens=1, seed=0, temperature=1e-7),
        example(shares, table=cut, prompt=1, max_new_tokens=1, seed=_number(draw), top_k=2),
        example(shares, table=cut, prompt=1, max_new_tokens=1, seed=_number(draw), top_p=0.8),
        *(
            example(scenario("generate_agreement", of=generate), table=UNEVEN, seed=seed)
            for seed in (_number(draw), None)
        ),
    ]


def _watched(draw: torch.Generator) -> list[Call]:
    ids, mask = torch.randint(5, (2, 3), generator=draw), torch.tensor([[False, True, True], [True, True, True]])
    asked = {"script": _script(draw, 2, 4), "input_ids": ids, "attention_mask": mask, "max_new_tokens": 4}
    asked |= {"stop_token_ids": (99,), "pad_token_id": 0, "top_k": 1}
    fed = scenario("fed_to_policy", of=generate)
    modes = [True, True, True, False], [False, True, True, True], [False] * 4
    return [example(fed, **asked, training=training) for training in modes]


NUMBERS = ("log_probs", "ref_log_probs", "values", "rewards", "advantages", "returns", "sampler_log_probs")


def experience(draw: torch.Generator, prompts: list[int], responses: list[int], first: int = 0) -> dict[str, Tensor]:
    """The rows of `readable`, with tokens and numbers that are drawn."""
    rows = readable(prompts, responses, first)
    ids = torch.randint(12, rows["input_ids"].shape, generator=draw).masked_fill(~rows["attention_mask"], 0)
    numbers = {name: normal_from(draw, *rows["mask"].shape).masked_fill(~rows["mask"], 0.0) for name in NUMBERS}
    return {**rows, "input_ids": ids, **numbers}


def _rows(draw: torch.Generator) -> list[Call]:
    picked = scenario("picked", of=Experience.rows)
    stored = experience(draw, [1, 4, 2, 3], [3, 1, 5, 2])
    zeros = experience(draw, [3, 2], [2, 3])
    zeros["input_ids"] = torch.zeros_like(zeros["input_ids"])
    gap = experience(draw, [2, 3], [4, 5])
    gap["mask"] = gap["mask"] & (torch.arange(5) != 1)
    unseen = experience(draw, [4, 2], [1, 3])  # what stands on the padding is arbitrary
    unseen |= {name: unseen[name].bfloat16().masked_fill(~unseen["mask"], math.nan) for name in NUMBERS}
    unseen["input_ids"] = unseen["input_ids"].masked_fill(~unseen["attention_mask"], 7)
    return [
        *(example(picked, tensors=stored, index=index) for index in ([3, 0], [2, 0, 3, 1], [2], [1], [1, 3, 1, 3, 1])),
        example(picked, tensors=experience(draw, [2, 2, 2], [2, 2, 1]), index=[2, 1]),
        example(picked, tensors=zeros, index=[0]),
        example(picked, tensors=experience(draw, [1, 1], [1, 1]), index=[1, 0]),
        example(picked, tensors=experience(draw, [2], [3]), index=[0]),
        example(picked, tensors=gap, index=[0]),
        example(picked, tensors=unseen, index=[1]),
    ]


def _minibatches(draw: torch.Generator) -> list[Call]:
    order = scenario("order_agreement", of=ExperienceBuffer.minibatches)
    two = experience(draw, [2, 1], [3, 1]), experience(draw, [1, 3, 2], [2, 4, 1], first=2)
    found = [
        example(YIELDED, batches=two, size=size, seed=_number(draw), epochs=epochs, forget=forget)
        for size, epochs, forget in ((2, 1, False), (1, 1, True), (5, 2, False), (3, 1, False), (7, 1, True))
    ]
    found.append(example(YIELDED, batches=two[::-1], size=2, seed=_number(draw), epochs=2))
    found.append(example(YIELDED, batches=two + two[:1] * 2, size=4, seed=4))  # nine rows: 4, 4 and 1
    many = experience(draw, [2] * 1_500, [3] * 1_500)
    many |= {name: many[name].bfloat16() for name in NUMBERS}
    return found + [example(order, tensors=many, size=size, seed=_number(draw)) for size in (200, 2_000)]


def _responses(draw: torch.Generator, lengths: list[int], vocabulary: int, least: int = 3) -> dict[str, Tensor]:
    """Responses over tokens from `least` on; those shorter than the longest end with the stop token 1."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.randint(least, vocabulary, mask.shape, generator=draw)
    last = torch.tensor(lengths)[:, None] - 1
    ends = (torch.arange(max(lengths)) == last) & (last < max(lengths) - 1)
    log_probs = -normal_from(draw, *mask.shape).abs()
    return {
        "responses": tokens.masked_fill(ends, 1).masked_fill(~mask, 0),
        "log_probs": log_probs.masked_fill(~mask, 0.0),
        "mask": mask,
    }


UNUSUAL = {"kl_estimator": "k2", "clip_score": 40.0, "temperature": 0.6}
SETTINGS: list[dict[str, object]] = [
    {"gamma": 0.9, "lam": 0.8},
    {"gamma": 0.7, "lam": 0.6, "temperature": 1e-3, "missing_stop_penalty": 0.4},
    {"gamma": 0.8, "kl_estimator": "k3", "clip_score": 1.5},
    {"lam": 0.5, "whiten_rewards": True, "temperature": 1.4},
    {"stop_token_ids": (4, 1), "missing_stop_penalty": 3.0, "clip_score": 2.5},
    {},
    {"gamma": 0.0, "missing_stop_penalty": 0.0, "clip_score": 40.0},
    {"lam": 0.0, "gamma": 0.8, "whiten_rewards": True, "missing_stop_penalty": 0.4} | UNUSUAL,
]


def _evaluating(draw: torch.Generator) -> list[Call]:
    found = []
    for settings in SETTINGS:
        asked = {
            "input_ids": torch.randint(2, 6, (3, 3), generator=draw),
            "attention_mask": _left_padded([1, 3, 2]),
            "reference": normal_from(draw, 6, 6),
            "worth": 20 * normal_from(draw, 6).index_fill(0, torch.tensor(0), math.nan),
            **_responses(draw, [4, 2, 1], 6),
            "scores": torch.tensor([6.5, -0.5, 0.5], dtype=torch.float64) + 0.2 * normal_from(draw, 3),
        }
        found.append(example(EVALUATED, **asked, kl_coef=0.3, **settings))
    return found


def _evaluating_by_models(draw: torch.Generator) -> list[Call]:
    found = []
    for prompts, responses, shared, settings in (
        ([2, 4, 1], [3, 5, 2], False, {"gamma": 0.9, "temperature": 0.7}),
        ([3, 1], [2, 2], True, {"lam": 0.7}),
        ([2, 2, 3], [3, 2, 1], False, {}),
    ):
        asked = {**_prompts(draw, prompts), "model": _number(draw), **_responses(draw, responses, 12, least=0)}
        by_models = scenario("lm_evaluated", of=evaluate_responses)
        found.append(example(by_models, **asked, kl_coef=0.2, shared=shared, **settings))
    return found


def _evaluating_in_special_cases(draw: torch.Generator) -> list[Call]:
    own_base = scenario("evaluated_by_its_own_base", of=evaluate_responses)
    text, many = _responses(draw, [3, 1], 6), torch.arange(40).reshape(20, 2) % 4
    shown = {"input_ids": torch.randint(2, 6, (2, 2), generator=draw), "attention_mask": _left_padded([1, 2])}
    shown |= {"responses": text["responses"] * (torch.arange(3) != 1), "mask": text["mask"]}
    two = {"input_ids": torch.randint(4, (2, 2), generator=draw), "responses": torch.randint(4, (2, 3), generator=draw)}
    tables = {"table": normal_from(draw, 4, 4), "base": normal_from(draw, 4, 4)}
    one = {"input_ids": [[2, 3]], "attention_mask": [[True, True]], "scores": [250.5], "whiten_rewards": True}
    one |= {"kl_coef": 0.3, "reference": normal_from(draw, 6, 6), "worth": normal_from(draw, 6).bfloat16()}
    return [
        example(SEEN, **shown),
        example(SEEN, input_ids=many + 2, attention_mask=many > -1, responses=many + 1, mask=many > -1),
        example(EVALUATED, **one, responses=[[4, 1]], log_probs=torch.tensor([[-30.0, -0.5]]), mask=[[True, True]]),
        example(EVALUATED, **one, responses=[[4]], log_probs=[[-1.0]], mask=[[True]]),
        *(
            example(own_base, **two, **tables, **settings)
            for settings in ({}, UNUSUAL | {"whiten_rewards": True}, {"by_name": True})
        ),
    ]


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
PROMPT_CALL = {"input_ids": [[4, 5, 6]], "attention_mask": [[True, True, True]], "max_new_tokens": 2}
PROMPT_CALL |= {"model": 1, "stop_token_ids": (9,), "pad_token_id": 0}
BAD_LOGITS = {
    "no-batch": ({"logits": [1.0, 2.0]}, ["logits (2,)"]),
    "temperature-0": ({"temperature": 0.0}, ["temperature"]),
    "top-p-above-1": ({"top_p": 1.1}, ["top_p"]),
}
BAD_PROMPTS = {
    "padded-on-the-right": ({"attention_mask": [[True, True, False]]}, ["left-padded"]),
    "beyond-the-context": ({"max_new_tokens": 22}, ["context of 24", "3 + 22"]),
    "temperature-0": ({"temperature": 0.0}, ["temperature"]),
}
STORED = {"batches": (readable([2, 1], [3, 1]),), "size": 2, "seed": 0}
BAD_BUFFERS = {"empty": ({"batches": ()}, ["experience", "got none"]), "size-0": ({"size": 0}, ["size"])}
BAD_SCORES = {"one-for-all": ({"scores": [1.0]}, ["response", "1"]), "nan": ({"scores": [1.0, math.nan]}, ["finite"])}

AGREEMENT = {sample_token: 3, ExperienceBuffer.minibatches: 3}
REFUSALS = {
    sample_token: ({"logits": [[1.0, 2.0]]}, BAD_LOGITS),
    scenario("lm_writes", of=generate): (PROMPT_CALL, BAD_PROMPTS),
    scenario("yielded", of=ExperienceBuffer.minibatches): (STORED, BAD_BUFFERS),
    scenario("evaluated", of=evaluate_responses): (CASE, BAD_SCORES),
}
