"""Ordinary inputs. What is drawn at random is asked for in a form that does not depend on *how* it is drawn: shares in
tenths, certain tokens, rows in the order of their scores. So any right sampler gives the same answers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from testcases.engine import Request, reference, request, scenario
from tutorial.lesson08_rollout import (
    Experience,
    ExperienceBuffer,
    collect_experience,
    evaluate_responses,
    generate,
    sample_token,
)


def examples(seed: int) -> list[Request]:
    """Ragged rows, temperatures and discounts away from 1, prompts padded on the left, B != T and B == T."""
    draw = torch.Generator().manual_seed(seed)
    return [
        *_sampling(draw),
        *_generation(draw),
        *_experiences(draw),
        *_judging(draw),
        *_collecting(draw),
    ]


def _number(draw: torch.Generator) -> int:
    return int(torch.randint(1000, (), generator=draw))


def _normal(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def _weights(draw: torch.Generator, *rows: list[float]) -> Tensor:
    """Logits of rows of weights, each row with its tokens in another order."""
    mixed = [torch.tensor(row, dtype=torch.float64)[torch.randperm(len(row), generator=draw)] for row in rows]
    return torch.stack(mixed).log()


def _sampling(draw: torch.Generator) -> list[Request]:
    shares = scenario("shares", of=sample_token)
    plain, wide = [[5.0, 3.0, 2.0, 0.0], [1.0, 2.0, 3.0, 4.0]], [[6.0, 4.0, 2.0, 1.0, 1.0], [12.0, 8.0, 3.0, 2.0, 1.0]]
    found = [
        request(shares, logits=_weights(draw, *plain), seed=_number(draw)),
        request(shares, logits=_weights(draw, *wide), seed=_number(draw), top_k=2),
        request(shares, logits=_weights(draw, *wide), seed=_number(draw), top_p=0.7),
        request(shares, logits=_weights(draw, [4.0, 2.0, 2.0, 2.0]), seed=_number(draw), top_k=2),
        request(shares, logits=_weights(draw, *plain), seed=_number(draw), top_k=9),
        request(shares, logits=_weights(draw, [2.0, 1.0, 1.0]), seed=_number(draw), top_p=0.5),
        request(shares, logits=_weights(draw, *wide), seed=_number(draw), top_p=0.01),
        request(shares, logits=_weights(draw, [36.0, 9.0, 1.0]), seed=_number(draw), temperature=2.0),
        request(shares, logits=_weights(draw, [6.0, 3.0, 1.0]) / 2, seed=_number(draw), temperature=0.5),
        request(shares, logits=_weights(draw, [25.0, 9.0, 4.0, 1.0]), seed=_number(draw), temperature=2.0, top_p=0.8),
        request(shares, logits=_weights(draw, [4.0, 3.0, 2.0, 1.0]), seed=_number(draw), top_k=2, top_p=0.5),
        request(
            scenario("agreement", of=sample_token), logits=_weights(draw, [3.0, 2.0, 2.0, 3.0]), seed=_number(draw)
        ),
        request(sample_token, _normal(draw, 5, 7), 0.7, 1),
        request(sample_token, _normal(draw, 3, 3).float(), top_p=0.01),
    ]
    return found


def _script(draw: torch.Generator, rows: int, steps: int, stops: tuple[int, ...] = ()) -> Tensor:
    """Logits over 5 tokens. The first row ends at step 1 or before, with the last of the stops; the last never ends."""
    script = _normal(draw, rows, steps, 5)
    if stops and rows > 1:
        script[0, 1, stops[-1]] = 9
        script[-1, :, stops] = -9
    return script


def _prompts(draw: torch.Generator, lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Left-padded prompts over 12 tokens; what stands on the padding is a token like any other."""
    longest = max(lengths)
    mask = torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]
    return torch.randint(12, (len(lengths), longest), generator=draw), mask


CHAIN = [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 1.0, 1.0]]


def _chain() -> Tensor:
    """Logits after each of 4 tokens."""
    return torch.tensor(CHAIN, dtype=torch.float64).log()


def _generation(draw: torch.Generator) -> list[Request]:
    scripted, writes = scenario("scripted", of=generate), scenario("lm_writes", of=generate)
    found = []
    for rows, steps, stops, pad, temperature in (
        (3, 6, (1,), 3, 1.0),
        (4, 4, (1, 3), 0, 0.7),
        (2, 5, (2,), 2, 1.6),
        (1, 3, (), 4, 1.0),
    ):
        options = {"max_new_tokens": steps, "stop_token_ids": stops, "pad_token_id": pad, "temperature": temperature}
        prompts = torch.randint(5, (rows, 3), generator=draw)
        found.append(
            request(scripted, script=_script(draw, rows, steps, stops), input_ids=prompts, seed=1, top_k=1, **options)
        )
    for lengths, temperature in (([2, 5, 3], 0.8), ([1, 4], 1.5), ([3, 3, 3], 1.0)):
        input_ids, mask = _prompts(draw, lengths)
        prompt = {"model": _number(draw), "input_ids": input_ids, "attention_mask": mask}
        options = {"max_new_tokens": 6, "pad_token_id": 0, "temperature": temperature, "top_k": 1}
        # Tokens that the model does write, so that rows end at different steps.
        free, _, _ = reference(writes, **prompt, stop_token_ids=(99,), **options)
        found.append(request(writes, **prompt, stop_token_ids=(int(free[0, 2]), int(free[-1, 4])), **options))
        found.append(request(writes, **prompt, stop_token_ids=(99,), **options))
    shares = scenario("sampled_shares", of=generate)
    chain = {"table": _chain(), "prompt": 2}
    tempered = torch.tensor([[0.0, 2.0, 3.0, 0.0]] * 4, dtype=torch.float64).log()
    cut = _weights(draw, [1.0, 6.0, 4.0, 1.0]).expand(4, 4).clone()
    found += [
        request(shares, **chain, max_new_tokens=2, seed=_number(draw)),
        request(shares, table=tempered, prompt=2, max_new_tokens=1, seed=_number(draw), temperature=0.5),
        request(shares, table=cut, prompt=1, max_new_tokens=1, seed=_number(draw), top_k=2),
        request(shares, table=cut, prompt=1, max_new_tokens=1, seed=_number(draw), top_p=0.8),
        request(scenario("generate_agreement", of=generate), table=_chain(), seed=_number(draw)),
        request(scenario("generate_agreement_without_generator", of=generate), table=_chain()),
    ]
    options = {"max_new_tokens": 4, "stop_token_ids": (99,), "pad_token_id": 0, "top_k": 1}
    input_ids, mask = torch.randint(5, (2, 3), generator=draw), torch.tensor([[False, True, True], [True, True, True]])
    script = _script(draw, 2, 4)
    found.append(
        request(
            scenario("fed_to_policy", of=generate), script=script, input_ids=input_ids, attention_mask=mask, **options
        )
    )
    for training in ([True, True, True, False], [False, False, False, False]):
        found.append(
            request(
                scenario("mode_after", of=generate), script=script, input_ids=input_ids, training=training, **options
            )
        )
    return found


def _experience(draw: torch.Generator, prompts: list[int], responses: list[int], first: int = 0) -> dict[str, Tensor]:
    """Rows of so many prompt and response tokens; the scores are `first`, `first + 1`, ..."""
    visible_prompt = torch.arange(max(prompts)) >= max(prompts) - torch.tensor(prompts)[:, None]
    mask = torch.arange(max(responses)) < torch.tensor(responses)[:, None]
    visible = torch.cat([visible_prompt, mask], dim=1)
    names = ("log_probs", "ref_log_probs", "values", "rewards", "advantages", "returns")
    return {
        "input_ids": torch.randint(12, visible.shape, generator=draw).masked_fill(~visible, 0),
        "attention_mask": visible,
        "mask": mask,
        "scores": torch.arange(first, first + len(prompts), dtype=torch.float64),
        **{name: _normal(draw, *mask.shape).masked_fill(~mask, 0.0) for name in names},
    }


def _experiences(draw: torch.Generator) -> list[Request]:
    picked, dealt = scenario("picked", of=Experience.rows), scenario("dealt", of=ExperienceBuffer.minibatches)
    found = []
    stored = _experience(draw, [1, 4, 2, 3], [3, 1, 5, 2])
    for index in ([3, 0], [0, 1, 2, 3], [2], [1], [2, 0, 2]):
        found.append(request(picked, tensors=stored, index=index))
    found.append(request(picked, tensors=_experience(draw, [2, 2, 2], [2, 2, 1]), index=[2, 1]))
    zeros = _experience(draw, [3, 2], [2, 3])
    zeros["input_ids"] = torch.zeros_like(zeros["input_ids"])
    found.append(request(picked, tensors=zeros, index=[0]))
    gap = _experience(draw, [2, 3], [4, 5])
    gap["mask"] = gap["mask"] & (torch.arange(5) != 1)
    found.append(request(picked, tensors=gap, index=[0]))
    first, second = _experience(draw, [2, 1], [3, 1]), _experience(draw, [1, 3, 2], [2, 4, 1], first=2)
    for size, epochs in ((2, 1), (1, 1), (5, 2), (3, 1), (7, 1)):
        found.append(request(dealt, batches=(first, second), size=size, seed=_number(draw), epochs=epochs))
    found.append(request(dealt, batches=(second, first), size=2, seed=_number(draw), epochs=2))
    many = _experience(draw, [2] * 30, [3] * 30)
    order = scenario("order_agreement", of=ExperienceBuffer.minibatches)
    found.append(request(order, batches=(many,), size=4, seed=_number(draw)))
    after = scenario("dealt_after_more", of=ExperienceBuffer.minibatches)
    for forget in (False, True):
        found.append(request(after, first=first, second=second, forget=forget, seed=_number(draw)))
    return found


def _responses(
    draw: torch.Generator, lengths: list[int], stop: int, vocabulary: int, least: int = 3
) -> dict[str, Tensor]:
    """Responses over tokens from `least` on; those shorter than the longest end with `stop`, the longest does not."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.randint(least, vocabulary, mask.shape, generator=draw)
    last = torch.tensor(lengths)[:, None] - 1
    ends = (torch.arange(max(lengths)) == last) & (last < max(lengths) - 1)
    log_probs = -_normal(draw, *mask.shape).abs()
    return {
        "responses": tokens.masked_fill(ends, stop).masked_fill(~mask, 0),
        "log_probs": log_probs.masked_fill(~mask, 0.0),
        "mask": mask,
    }


def _judging(draw: torch.Generator) -> list[Request]:
    judged, by_models = scenario("judged", of=evaluate_responses), scenario("lm_judged", of=evaluate_responses)
    found = []
    for options in (
        {"gamma": 0.9, "lam": 0.8},
        {"gamma": 0.7, "lam": 0.6, "temperature": 0.6, "missing_stop_penalty": 0.4},
        {"gamma": 0.8, "kl_estimator": "k3", "clip_score": 1.5},
        {"lam": 0.5, "whiten_rewards": True, "temperature": 1.4},
        {"stop_token_ids": (4, 1), "missing_stop_penalty": 3.0, "clip_score": 2.5},
        {},
    ):
        input_ids = torch.randint(2, 6, (3, 3), generator=draw)
        mask = torch.tensor([[False, False, True], [True, True, True], [False, True, True]])
        table = _normal(draw, 6, 6)
        worth = _normal(draw, 6)
        worth[0] = math.nan
        found.append(
            request(
                judged,
                input_ids=input_ids,
                attention_mask=mask,
                **_responses(draw, [4, 2, 1], 1, 6),
                scores=torch.tensor([6.5, -0.5, 0.5], dtype=torch.float64) + 0.2 * _normal(draw, 3),
                reference=table,
                worth=worth,
                kl_coef=0.3,
                **options,
            )
        )
    for lengths, responses, shared, options in (
        ([2, 4, 1], [3, 5, 2], False, {"gamma": 0.9, "temperature": 0.7}),
        ([3, 1], [2, 2], True, {"lam": 0.7}),
        ([2, 2, 3], [3, 2, 1], False, {}),
    ):
        input_ids, mask = _prompts(draw, lengths)
        found.append(
            request(
                by_models,
                model=_number(draw),
                input_ids=input_ids,
                attention_mask=mask,
                **_responses(draw, responses, 1, 12, least=0),
                kl_coef=0.2,
                shared=shared,
                **options,
            )
        )
    text = _responses(draw, [3, 1], 1, 6)
    found.append(
        request(
            scenario("seen_by_score", of=evaluate_responses),
            input_ids=torch.randint(2, 6, (2, 2), generator=draw),
            attention_mask=torch.tensor([[False, True], [True, True]]),
            responses=text["responses"] * (torch.arange(3) != 1),
            mask=text["mask"],
        )
    )
    found.append(
        request(
            scenario("modes_after_an_error_of_the_critic", of=evaluate_responses), training=[True, False, True, False]
        )
    )
    found.append(
        request(
            judged,
            input_ids=[[2, 3]],
            attention_mask=[[True, True]],
            responses=[[4, 1]],
            log_probs=[[-1.0, -0.5]],
            mask=[[True, True]],
            scores=[0.5],
            reference=_normal(draw, 6, 6),
            worth=_normal(draw, 6).bfloat16(),
            kl_coef=0.3,
        )
    )
    found.append(
        request(
            scenario("judged_by_its_own_base", of=evaluate_responses),
            input_ids=torch.randint(4, (2, 2), generator=draw),
            responses=torch.randint(4, (2, 3), generator=draw),
            table=_normal(draw, 4, 4),
            base=_normal(draw, 4, 4),
        )
    )
    return found


def _collecting(draw: torch.Generator) -> list[Request]:
    collected = scenario("collected", of=collect_experience)
    found = []
    for options in (
        {"gamma": 0.9, "lam": 0.8, "max_new_tokens": 5},
        {"gamma": 0.7, "temperature": 0.6, "max_new_tokens": 3, "pad_token_id": 5},
        {"stop_token_ids": (1, 4), "max_new_tokens": 6, "missing_stop_penalty": 0.4},
        {"whiten_rewards": True, "max_new_tokens": 4, "kl_estimator": "k2", "clip_score": 1.5},
    ):
        # Each token is followed by the next one, round and round: the shortest way to each possible end.
        certain = torch.full((6, 6), -math.inf, dtype=torch.float64)
        certain[torch.arange(6), (torch.arange(6) + 1) % 6] = 0.0
        found.append(
            request(
                collected,
                input_ids=torch.cat([torch.randint(6, (3, 1), generator=draw), torch.tensor([[5], [2], [4]])], dim=1),
                attention_mask=torch.tensor([[True, True], [False, True], [True, True]]),
                table=certain,
                reference=_normal(draw, 6, 6),
                worth=_normal(draw, 6),
                scores=3 * _normal(draw, 3),
                kl_coef=0.25,
                seed=_number(draw),
                **options,
            )
        )
    found.append(
        request(
            scenario("collected_shares", of=collect_experience),
            table=_weights(draw, [0.0, 0.0, 2.0, 3.0]).expand(4, 4).clone(),
            reference=_normal(draw, 4).expand(4, 4).clone(),
            prompt=2,
            seed=_number(draw),
            temperature=0.5,
            max_new_tokens=1,
        )
    )
    found.append(
        request(
            scenario("modes_after_collecting", of=collect_experience),
            table=_chain(),
            training=[False, True, True, False],
        )
    )
    found.append(request(scenario("collected_agreement", of=collect_experience), table=_chain(), seed=_number(draw)))
    found.append(request(scenario("collected_agreement_without_generator", of=collect_experience), table=_chain()))
    return found
