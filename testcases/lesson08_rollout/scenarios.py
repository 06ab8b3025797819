"""What lesson 8's suites ask for by name: seeded generators, scripted policies that remember what they were fed, tiny
models. A scripted policy has no weights that matter: its logits come from a table, so every number can be worked out.
"""

import copy
import importlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from testcases.harness.doubles.models import TinyLM

from .scenarios_models import Adapted, Critic, Script, Table, actor_critic, modes_of, tiny_actor_critic

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
    modules = _in_modes(policy, training)
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


def modes_after_an_error(lesson: Any, training: Tensor) -> Tensor:
    """The modes of a policy and its three inner modules, as in `fed_to_policy`, after it has raised an error."""

    class Broken(Table):
        def logits_of(self, input_ids: Tensor) -> Tensor:
            raise ArithmeticError("broken on purpose")

    policy, ids = Broken(torch.zeros(4, 4)), torch.tensor([[2]])
    modules = _in_modes(policy, training)
    with suppress(ArithmeticError):
        lesson.generate(policy, ids, ids > 0, 2, (3,), 0, generator=generator(0))
    return modes_of(modules)


def _in_modes(policy: Table, training: Tensor) -> list[nn.Module]:
    modules = [policy, *policy.inner.modules()]
    for module, mode in zip(modules, training.tolist(), strict=True):
        module.training = mode
    return modules


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
    """Generate from a tiny language model; `model` is the seed of its weights, `seed` that of the sampling."""
    source = generator(options.pop("seed", 0))
    return lesson.generate(TinyLM(model), input_ids, attention_mask, generator=source, **options)


def plain(experience: Any) -> dict[str, Tensor]:
    return {field.name: getattr(experience, field.name) for field in fields(experience)}


def picked(lesson: Any, tensors: dict[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    """Some rows of an experience."""
    return plain(lesson.Experience(**tensors).rows(index))


def yielded(
    lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int, epochs: int = 1, forget: bool = False
) -> dict[str, Any]:
    """The last of some epochs over `batches`, in an order that does not depend on how the rows were shuffled: the sizes
    of the minibatches, and every row cut to its own length, those of small scores first.

    "columns to spare" are those that are padding in all rows of a minibatch. `forget`: before the last of the batches
    is appended, an epoch passes over the others, and the buffer is cleared.
    """
    source, buffer = generator(seed), lesson.ExperienceBuffer()
    for number, tensors in enumerate(batches, 1):
        if forget and number == len(batches):
            list(buffer.minibatches(size, source))
            buffer.clear()
        buffer.append(lesson.Experience(**tensors))
    for _ in range(epochs):
        minibatches = [plain(one) for one in buffer.minibatches(size, generator=source)]
    rows = [_row(one, number) for one in minibatches for number in range(len(one["scores"]))]
    return {
        "sizes": torch.tensor([len(one["scores"]) for one in minibatches]),
        "columns to spare": sum(_columns_to_spare(one) for one in minibatches),
        "rows in the buffer": len(buffer),
        "rows": tuple(sorted(rows, key=lambda row: float(row["scores"]))),
    }


def order_agreement(lesson: Any, tensors: dict[str, Tensor], size: int, seed: int) -> dict[str, bool]:
    """Which epochs deal their rows, whose scores are 0, 1, 2, ..., in the same order."""
    buffer = lesson.ExperienceBuffer()
    buffer.append(lesson.Experience(**tensors))

    def dealt(source: torch.Generator | None) -> Tensor:
        return torch.cat([one.scores for one in buffer.minibatches(size, source)])

    order = dealt(generator(seed))
    return {
        **agreement_of(dealt, seed),
        "each row once": torch.equal(order.sort().values, tensors["scores"]),
        "as they were stored": torch.equal(order, tensors["scores"]),
        "each minibatch as it was stored": all(torch.equal(part, part.sort().values) for part in order.split(size)),
        "each minibatch of neighbors": all(len(part) == part.max() - part.min() + 1 for part in order.split(size)),
        "most rows beside their neighbor": bool((order.diff().abs() == 1).sum() * 2 >= len(order)),
    }


def _row(batch: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """One row, without its padding columns at both ends."""
    row = {name: tensor[number] for name, tensor in batch.items()}
    prompt_length = len(row["input_ids"]) - len(row["mask"])
    first = int(row["attention_mask"].long().argmax())
    length = int(row["mask"].nonzero().max()) + 1
    columns = {
        "input_ids": slice(first, prompt_length + length),
        "attention_mask": slice(first, prompt_length + length),
    }
    return {name: tensor[columns.get(name, slice(length))] if tensor.dim() else tensor for name, tensor in row.items()}


def _columns_to_spare(batch: dict[str, Tensor]) -> int:
    used = batch["attention_mask"].any(dim=0).nonzero()
    return int(used.min()) + batch["attention_mask"].shape[1] - 1 - int(used.max())


def _config(lesson: Any, options: dict[str, Any]) -> Any:
    """Of a trainer, which has settings of its own, such as the coefficient that its controller starts from."""
    config = importlib.import_module(lesson.RolloutConfig.__module__).PPOConfig
    return config(**{"stop_token_ids": (1,), "pad_token_id": 0, **options})


def _evaluate(
    lesson: Any, model: nn.Module, reference: nn.Module | None, score: Any, kl_coef: float = 0.1, **given: Any
) -> Any:
    """`evaluate_responses`; prompts, responses and settings are given by their names."""
    prompts = [given.pop(name) for name in ("input_ids", "attention_mask")]
    written = lesson.Generation(*(given.pop(name) for name in ("responses", "log_probs", "mask")))
    return lesson.evaluate_responses(model, reference, score, *prompts, written, _config(lesson, given), kl_coef)


def evaluated(
    lesson: Any, scores: Tensor, reference: Tensor, worth: Tensor, kl_coef: float, **given: Any
) -> dict[str, Tensor]:
    """Evaluate responses: `reference` is the table of the reference's logits by last token, `worth` that of values."""
    model = actor_critic(lesson, Table(torch.zeros_like(reference)), Critic(worth)).train()
    model.training = False  # as a whole; what is inside is in train mode
    frozen = Table(reference).eval()
    return plain(_evaluate(lesson, model, frozen, lambda *text, **named: scores.clone(), kl_coef, **given))


def seen_by_score(lesson: Any, responses: Tensor, broken: str | None = None, **given: Any) -> dict[str, Any]:
    """What the reward model is asked, and how often; the mode of actor, critic and reference afterwards.

    `broken`: the "critic", the "reference" or the "score", which raises an error.
    """
    asked, shown = [], {}

    def break_down(*given: Any, **named: Any) -> Tensor:
        raise ArithmeticError("broken on purpose")

    def score(input_ids: Any, attention_mask: Any, prompt_length: Any) -> Tensor:
        asked.append((input_ids, attention_mask, prompt_length))
        return break_down() if broken == "score" else torch.zeros(len(responses))

    table = torch.zeros(6, 6)
    parts = {"critic": Critic(table[0]), "reference": Table(table).train()}
    if broken in parts:
        parts[broken].forward = break_down
    reference = parts["reference"]
    model = actor_critic(lesson, Table(table), parts["critic"]).train()
    for module in (model.policy.inner, model.value_model):  # each module has a mode of its own
        module.training = False
    before, reference_before = modes_of(model.modules()), modes_of(reference.modules())
    names, zeros = _attributes(model, reference), torch.zeros(responses.shape)
    try:
        found = _evaluate(lesson, model, reference, score, responses=responses, log_probs=zeros, **given)
        shown = dict(zip(("input_ids", "attention_mask", "prompt_length"), asked[-1] if asked else (), strict=False))
        shown |= {"times asked": len(asked)}
        shown |= {"can be used for training": not any(tensor.is_inference() for tensor in plain(found).values())}
    except ArithmeticError:
        if not broken:
            raise
    return {
        **shown,
        "modes as before": torch.equal(before, modes_of(model.modules())),
        "mode of the reference as before": torch.equal(reference_before, modes_of(reference.modules())),
        "attributes as before": _attributes(model, reference) == names,
    }


def _attributes(*models: nn.Module) -> set[tuple[int, str]]:
    """The names of what models and their parts hold, without the notes of a table on its last call."""
    parts = [part for model in models for part in model.modules()]
    return {(id(part), name) for part in parts for name in vars(part) if name != "rows"}


def evaluated_by_its_own_base(
    lesson: Any,
    input_ids: Tensor,
    responses: Tensor,
    table: Tensor,
    base: Tensor,
    by_name: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Evaluate a LoRA policy without a reference model: what follows from its base (or, `by_name`, from its adapter
    "reference"), and whether its own adapter is on afterwards. The critic shares the policy's backbone: its values are
    0 with that adapter, and 1 without."""
    policy = Adapted(table, base, by_name)

    class Shares(Critic):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            is_own = policy.is_on and policy.active_adapter == "default"
            return super().forward(input_ids, attention_mask) + (0.0 if is_own else 1.0)

    zeros = torch.zeros(responses.shape, dtype=table.dtype)
    found = _evaluate(
        lesson,
        actor_critic(lesson, policy, Shares(torch.zeros_like(table[0]))),
        None,
        lambda *text, **named: zeros[:, 0],
        input_ids=input_ids,
        attention_mask=input_ids > -1,
        responses=responses,
        log_probs=zeros,
        mask=torch.ones_like(responses, dtype=torch.bool),
        **settings,
    )
    names = ("ref_log_probs", "values", "rewards")
    return {
        **{name: getattr(found, name) for name in names},
        "adapter on": policy.is_on and policy.active_adapter == "default",
    }


def lm_evaluated(lesson: Any, model: int, kl_coef: float, shared: bool = False, **given: Any) -> dict[str, Tensor]:
    """Evaluate responses with tiny language models: absolute positions, padding on both sides."""
    reference = TinyLM(model + 1).eval()
    return plain(_evaluate(lesson, tiny_actor_critic(lesson, model, shared), reference, mean_token, kl_coef, **given))


def mean_token(input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
    """A reward function of the whole text: the mean number of its real tokens, minus 3."""
    return (input_ids * attention_mask).sum(dim=1) / attention_mask.sum(dim=1).double() - 3
