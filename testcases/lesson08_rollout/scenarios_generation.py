"""Scenarios of `sample_token` and `generate`."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from testcases.harness.doubles.models import TinyLM

from .scenarios_models import Script, Table, modes_of

DRAWS = 3_000
"""Of a share in tenths: the standard error is at most 0.0091, five times smaller than half a tenth."""


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def agreement_of(draw: Callable[[torch.Generator | None], Tensor], seed: int | None) -> dict[str, bool]:
    """Which draws agree with the first; without a seed they come from torch's own generator."""
    if seed is None:
        drawn = []
        for number in (1, 1, 2):
            torch.manual_seed(number)
            drawn.append(draw(None))
        return {"same seed": torch.equal(drawn[0], drawn[1]), "other seed": torch.equal(drawn[0], drawn[2])}
    source = generator(seed)
    first = draw(source)
    return {
        "same seed": torch.equal(first, draw(generator(seed))),
        "same generator once more": torch.equal(first, draw(source)),
        "other seed": torch.equal(first, draw(generator(seed + 1))),
    }


def shares(lesson: Any, logits: Tensor, seed: int, **options: Any) -> Tensor:
    """Many draws of `sample_token`: how often each token of each row is drawn, rounded to tenths, (B, V)."""
    tokens = lesson.sample_token(logits.repeat_interleave(DRAWS, dim=0), generator=generator(seed), **options)
    return _tenths(tokens.reshape(len(logits), DRAWS), logits.shape[1])


def _tenths(tokens: Tensor, vocabulary: int) -> Tensor:
    """Share of each token among the columns of each row, (B, V) float64."""
    found = torch.stack([(tokens == token).double().mean(dim=1) for token in range(vocabulary)], dim=1)
    return (10 * found).round() / 10


def agreement(lesson: Any, logits: Tensor, seed: int) -> dict[str, bool]:
    """Which draws of 60 tokens agree; and whether 60 draws of one are all the same."""
    rows, source = logits.repeat_interleave(60, dim=0), generator(seed)
    alone = {lesson.sample_token(logits, generator=source).item() for _ in range(60)}
    found = agreement_of(lambda source: lesson.sample_token(rows, generator=source), seed)
    return {**found, "always the same for one row": len(alone) == 1}


def scripted(lesson: Any, script: Tensor, input_ids: Tensor, seed: int = 0, **options: Any) -> Any:
    """Generate with a policy that reads no text: its logits for token t of row b are script[b, t]."""
    mask = torch.ones_like(input_ids, dtype=torch.bool)
    return lesson.generate(Script(script), input_ids, mask, generator=generator(seed), **options)


def fed_to_policy(
    lesson: Any, script: Tensor, input_ids: Tensor, attention_mask: Tensor, training: Tensor, **options: Any
) -> dict[str, Any]:
    """How generate called the policy: one entry for each call. `training`: the modes of the policy and its three inner
    modules before."""
    policy = Script(script)
    policy.rows = input_ids[:, 0]  # it writes that down as well
    modules = [policy, *policy.inner.modules()]
    for module, mode in zip(modules, training.tolist(), strict=True):
        module.training = mode
    names, config = set(vars(policy)), copy.copy(policy.config)
    written = lesson.generate(policy, input_ids, attention_mask, generator=generator(0), **options)
    calls = policy.calls
    longest = input_ids.shape[1] + options["max_new_tokens"]
    fed = [call.input_ids for call in calls[1:] if len(call.input_ids) == len(input_ids)]  # rows that ended may leave
    return {
        "columns fed in each call": torch.tensor([call.input_ids.shape[1] for call in calls]),
        "cache passed on": all(call.had_cache for call in calls[1:]),
        "tokens fed after the prompt": torch.cat(fed or [input_ids[:, :0]], dim=1),
        # Hugging Face ignores columns beyond the text; a mask that grows too fast is costly all the same.
        "mask wider than the text can get": any(call.columns_of_the_mask > longest for call in calls),
        "in train mode": any(call.training for call in calls),
        "with gradient": any(call.tracked for call in calls),
        "can be used for training": not any(part.is_inference() for part in written),
        "attributes and config as before": set(vars(policy)) == names and policy.config == config,
        "modes afterwards": modes_of(modules),
    }


def sampled_shares(
    lesson: Any, table: Tensor, prompt: int, max_new_tokens: int, seed: int, **options: Any
) -> dict[str, Tensor]:
    """Many responses to one prompt of one token: shares of each token at each step, and its log-probability there, 0
    where the token never occurs."""
    ids = torch.full((DRAWS, 1), prompt)
    drawn = lesson.generate(
        Table(table), ids, ids > -1, max_new_tokens, (len(table),), 0, generator=generator(seed), **options
    )
    came = drawn.responses.T.unsqueeze(2) == torch.arange(len(table))
    sums = (drawn.log_probs.T.unsqueeze(2) * came).sum(dim=1)
    return {"shares": _tenths(drawn.responses.T, len(table)), "log_probs": sums / came.sum(dim=1).clamp(min=1)}


def generate_agreement(lesson: Any, table: Tensor, seed: int | None) -> dict[str, bool]:
    """Which of several generations agree: 20 responses of 4 tokens."""
    ids, stops = torch.full((20, 1), 2), (len(table),)
    return agreement_of(
        lambda source: lesson.generate(Table(table), ids, ids > -1, 4, stops, 0, generator=source).responses, seed
    )


def lm_writes(lesson: Any, model: int, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Any:
    """Generate from a tiny language model; `model` is the seed of its weights, `seed` that of the sampling. Before
    that, one token to prompts of the same shape without padding."""
    source = generator(options.pop("seed", 0))
    one = {**options, "max_new_tokens": 1}
    lesson.generate(TinyLM(model), input_ids, torch.ones_like(attention_mask), generator=generator(0), **one)
    return lesson.generate(TinyLM(model), input_ids, attention_mask, generator=source, **options)
