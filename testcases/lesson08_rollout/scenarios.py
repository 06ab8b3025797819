"""Live objects for lesson 8: seeded generators, scripted policies that remember what they were fed, tiny models.

A scripted policy has no weights that matter: its logits come from a table, so every number can be worked by hand.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

DRAWS = 6_000
"""Of a share in tenths: the standard error is below 0.0065, eight times smaller than half a tenth."""


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Policies


class Output(NamedTuple):
    """`output[0]` and `output.logits` are the same, as with Hugging Face."""

    logits: Tensor
    past_key_values: Any


class BodyOutput(NamedTuple):
    last_hidden_state: Tensor
    past_key_values: Any


class Watched(nn.Module):
    """Looks like a Hugging Face causal language model to its caller, and writes down how it was called.

    In train mode the logits are turned round, as dropout would make them wrong. All but the last position's logits
    are those of the text there, so a model may also be asked to read a whole text at once.
    """

    def __init__(self, context: int = 64) -> None:
        super().__init__()
        self.config = SimpleNamespace(max_position_embeddings=context)
        self.inner = nn.Sequential(nn.Identity(), nn.Dropout(0.5))
        self.weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.calls: list[SimpleNamespace] = []

    def logits_of(self, input_ids: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **ignored: Any,
    ) -> Output:
        logits = self.logits_of(input_ids) + self.weight
        if any(module.training for module in self.modules()):
            logits = logits.flip(-1)
        self.calls.append(
            SimpleNamespace(
                input_ids=input_ids.clone(),
                visible=None if attention_mask is None else attention_mask.bool().clone(),
                positions=None if position_ids is None else position_ids.clone(),
                had_cache=past_key_values is not None,
                training=any(module.training for module in self.modules()),
                tracked=logits.requires_grad,
            )
        )
        kept = logits[:, -logits_to_keep:] if logits_to_keep else logits
        return Output(kept, None if use_cache is False else len(self.calls))


class Table(Watched):
    """The next token depends on the last one alone: logits[b, i] = table[input_ids[b, i]]."""

    def __init__(self, table: Tensor, context: int = 64) -> None:
        super().__init__(context)
        self.table = table

    def logits_of(self, input_ids: Tensor) -> Tensor:
        return self.table[input_ids]


class Script(Watched):
    """The next token depends on the row and the step alone: the k-th call gives script[:, k] at its last position."""

    def __init__(self, script: Tensor, context: int = 64) -> None:
        super().__init__(context)
        self.script = script

    def logits_of(self, input_ids: Tensor) -> Tensor:
        step = min(len(self.calls), self.script.shape[1] - 1)
        logits = self.script[:, :1].roll(1, dims=-1).repeat(1, input_ids.shape[1], 1)
        logits[:, -1] = self.script[:, step]
        return logits


class Adapted(Table):
    """What `peft` gives, as far as `reference_mode` can see: a base table, and an adapter that replaces it."""

    def __init__(self, table: Tensor, base: Tensor) -> None:
        super().__init__(table)
        self.base = base
        self.peft_config = {"default": None}
        self.active_adapter = "default"
        self.is_on = True

    def set_adapter(self, name: str) -> None:
        self.active_adapter = name

    @contextmanager
    def disable_adapter(self) -> Iterator[None]:
        self.is_on = False
        try:
            yield
        finally:
            self.is_on = True

    def logits_of(self, input_ids: Tensor) -> Tensor:
        return (self.table if self.is_on else self.base)[input_ids]


class TableCritic(nn.Module):
    """V(text) depends on its last token alone; in train mode 100 too much."""

    def __init__(self, worth: Tensor) -> None:
        super().__init__()
        self.worth = nn.Parameter(worth)
        self.inner = nn.Dropout(0.5)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.worth[input_ids] + (100 if self.training else 0)


class TinyBody(nn.Module):
    """One layer of attention x 16 in float64 over 12 tokens, with *absolute* positions and a key-value cache.

    As in Hugging Face's GPT-2, positions not given count the columns, and a mask that is too short hides the newest.
    """

    def __init__(self, seed: int, n_positions: int = 24) -> None:
        super().__init__()
        draw = generator(seed)

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64))

        self.config = SimpleNamespace(hidden_size=16, max_position_embeddings=n_positions)
        self.tokens, self.places = weight(12, 16), weight(n_positions, 16)
        self.queries, self.keys, self.values = weight(16, 16), weight(16, 16), weight(16, 16)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: tuple[Tensor, Tensor] | None = None,
        **ignored: Any,
    ) -> BodyOutput:
        old = 0 if past_key_values is None else past_key_values[0].shape[1]
        new = input_ids.shape[1]
        if position_ids is None:
            position_ids = torch.arange(old, old + new).expand_as(input_ids)
        read = self.tokens[input_ids] + self.places[position_ids]
        keys, values = read @ self.keys, read @ self.values
        if past_key_values is not None:
            keys, values = torch.cat([past_key_values[0], keys], 1), torch.cat([past_key_values[1], values], 1)
        visible = (
            torch.ones(len(keys), old + new, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        )
        visible = nn.functional.pad(visible, (0, old + new - visible.shape[1]))
        allowed = visible[:, None] & torch.ones(new, old + new, dtype=torch.bool).tril(old)
        weights = (read @ self.queries @ keys.mT / 16).masked_fill(~allowed, -1e300).softmax(dim=-1)
        hidden = torch.tanh(read / 2 + weights @ values / 4)
        return BodyOutput(hidden, (keys, values))


class TinyLM(nn.Module):
    """A language model on a `TinyBody`, with the interface of Hugging Face's."""

    def __init__(self, seed: int, n_positions: int = 24) -> None:
        super().__init__()
        self.base_model = TinyBody(seed, n_positions)
        self.config = self.base_model.config
        self.lm_head = nn.Linear(16, 12, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.lm_head.weight.normal_(generator=generator(seed + 100))

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **ignored: Any,
    ) -> Output:
        output = self.base_model(input_ids, attention_mask, position_ids, past_key_values)
        hidden = output.last_hidden_state[:, -logits_to_keep:] if logits_to_keep else output.last_hidden_state
        cache = None if use_cache is False else output.past_key_values
        return Output(self.lm_head(hidden), cache)


def actor_critic(lesson: Any, policy: nn.Module, critic: nn.Module) -> nn.Module:
    return _sibling(lesson, "lesson07_actor_critic").PolicyAndValue(policy, critic)


def _sibling(lesson: Any, name: str) -> Any:
    """Another lesson, from the same tree as this one."""
    return importlib.import_module(f"{lesson.__name__.rpartition('.')[0]}.{name}")


# sample_token


def shares(lesson: Any, logits: Tensor, seed: int, **options: Any) -> Tensor:
    """How often each token of each row is drawn, rounded to tenths, (B, V)."""
    tokens = lesson.sample_token(logits.repeat_interleave(DRAWS, dim=0), generator=generator(seed), **options)
    return _tenths(tokens.reshape(len(logits), DRAWS), logits.shape[1])


def counts(lesson: Any, logits: Tensor, seed: int, draws: int, **options: Any) -> Tensor:
    """How often each token of each row is drawn, (B, V) int64."""
    tokens = lesson.sample_token(logits.repeat_interleave(draws, dim=0), generator=generator(seed), **options)
    tokens = tokens.reshape(len(logits), draws)
    return torch.stack([(tokens == token).sum(dim=1) for token in range(logits.shape[1])], dim=1)


def agreement(lesson: Any, logits: Tensor, seed: int, **options: Any) -> dict[str, bool]:
    """Which draws agree: 60 tokens, drawn several times."""
    rows = logits.repeat_interleave(60, dim=0)
    first, again, other = generator(seed), generator(seed), generator(seed + 1)
    drawn = lesson.sample_token(rows, generator=first, **options)
    return {
        "same seed": torch.equal(drawn, lesson.sample_token(rows, generator=again, **options)),
        "same generator once more": torch.equal(drawn, lesson.sample_token(rows, generator=first, **options)),
        "other seed": torch.equal(drawn, lesson.sample_token(rows, generator=other, **options)),
    }


def agreement_without_generator(lesson: Any, logits: Tensor) -> dict[str, bool]:
    """The same for the global generator."""
    rows, drawn = logits.repeat_interleave(60, dim=0), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(lesson.sample_token(rows))
    return {"same seed": torch.equal(drawn[0], drawn[1]), "other seed": torch.equal(drawn[0], drawn[2])}


def _tenths(tokens: Tensor, vocabulary: int) -> Tensor:
    """Share of each token among the columns of each row, (B, V) float64."""
    found = torch.stack([(tokens == token).double().mean(dim=1) for token in range(vocabulary)], dim=1)
    return (10 * found).round() / 10


# generate


def generate_agreement_without_generator(lesson: Any, table: Tensor) -> dict[str, bool]:
    """The same as `generate_agreement`, for the global generator."""
    ids, drawn = torch.full((20, 1), 2), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(lesson.generate(Table(table), ids, ids > -1, 4, (len(table),), 0).responses)
    return {"same seed": torch.equal(drawn[0], drawn[1]), "other seed": torch.equal(drawn[0], drawn[2])}


def scripted(lesson: Any, script: Tensor, input_ids: Tensor, seed: int = 0, **options: Any) -> Any:
    """Generate from a script: (B, steps, V) logits."""
    mask = options.pop("attention_mask", torch.ones_like(input_ids, dtype=torch.bool))
    return lesson.generate(Script(script), input_ids, mask, generator=generator(seed), **options)


def fed_to_policy(
    lesson: Any, script: Tensor, input_ids: Tensor, attention_mask: Tensor, **options: Any
) -> dict[str, Any]:
    """How generate called the policy: one entry for each call."""
    policy = Script(script)
    written = lesson.generate(policy, input_ids, attention_mask, generator=generator(0), **options)
    calls = policy.calls
    return {
        "columns fed in each call": torch.tensor([call.input_ids.shape[1] for call in calls]),
        "cache handed back": all(call.had_cache for call in calls[1:]),
        "tokens fed after the prompt": torch.cat([call.input_ids for call in calls[1:]] or [input_ids[:, :0]], dim=1),
        # Hugging Face ignores columns beyond the text; a mask that grows too fast is costly all the same.
        "mask wider than the text can get": any(
            call.visible is not None and call.visible.shape[1] > input_ids.shape[1] + options["max_new_tokens"]
            for call in calls
        ),
        "in train mode": any(call.training for call in calls),
        "with gradient": any(call.tracked for call in calls),
        "can be used for training": not any(part.is_inference() for part in written),
    }


def mode_after(lesson: Any, script: Tensor, input_ids: Tensor, training: Tensor, **options: Any) -> Tensor:
    """The modes of a policy and its three inner modules after generating; `training` says what they were."""
    policy = Script(script)
    modules = [policy, *policy.inner.modules()]
    for module, mode in zip(modules, training.tolist(), strict=True):
        module.training = mode
    mask = torch.ones_like(input_ids, dtype=torch.bool)
    lesson.generate(policy, input_ids, mask, generator=generator(0), **options)
    return torch.tensor([module.training for module in modules])


def mode_after_an_error(lesson: Any, training: bool) -> bool:
    """The mode after a policy that breaks in its second call."""

    class Breaks(Script):
        def logits_of(self, input_ids: Tensor) -> Tensor:
            if self.calls:
                raise ArithmeticError("broken on purpose")
            return super().logits_of(input_ids)

    policy = Breaks(torch.zeros(1, 3, 4, dtype=torch.float64)).train(training)
    try:
        ones = torch.ones(1, 1, dtype=torch.int64)
        lesson.generate(policy, ones, ones.bool(), 3, (9,), 0, generator=generator(0))
    except ArithmeticError:
        return policy.training
    raise RuntimeError("the policy was called only once")


def sampled_shares(
    lesson: Any, table: Tensor, prompt: int, max_new_tokens: int, seed: int, **options: Any
) -> dict[str, Tensor]:
    """Many responses to one prompt of one token: shares of each token at each step, and its log-probability there."""
    ids = torch.full((DRAWS, 1), prompt)
    drawn = lesson.generate(
        Table(table), ids, ids > -1, max_new_tokens, (len(table),), 0, generator=generator(seed), **options
    )
    return {
        "shares": _tenths(drawn.responses.T, len(table)),
        "log_probs": _mean_by_token(drawn.responses, drawn.log_probs, len(table)),
    }


def _mean_by_token(tokens: Tensor, numbers: Tensor, vocabulary: int) -> Tensor:
    """(T, V): the mean of the numbers that stand at each token in each column; 0 where the token never occurs."""
    return torch.stack(
        [
            torch.stack([column[ids == token].sum() / (ids == token).sum().clamp(min=1) for token in range(vocabulary)])
            for ids, column in zip(tokens.T, numbers.T, strict=True)
        ]
    )


def generate_agreement(lesson: Any, table: Tensor, seed: int) -> dict[str, bool]:
    """Which of several generations agree: 20 responses of 4 tokens."""
    ids = torch.full((20, 1), 2)

    def write(source: torch.Generator) -> Tensor:
        return lesson.generate(Table(table), ids, ids > -1, 4, (len(table),), 0, generator=source).responses

    first, again, other = generator(seed), generator(seed), generator(seed + 1)
    drawn = write(first)
    return {
        "same seed": torch.equal(drawn, write(again)),
        "same generator once more": torch.equal(drawn, write(first)),
        "other seed": torch.equal(drawn, write(other)),
    }


def lm_writes(lesson: Any, model: int, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Any:
    """Generate from a tiny language model; `model` is the seed of its weights, `seed` that of the sampling."""
    source = generator(options.pop("seed", 0))
    return lesson.generate(TinyLM(model), input_ids, attention_mask, generator=source, **options)


def read_again(
    lesson: Any,
    model: int,
    input_ids: Tensor,
    attention_mask: Tensor,
    responses: Tensor,
    mask: Tensor,
    temperature: float,
) -> Tensor:
    """Log-probs (B, T) of the responses by one pass over each row alone, without any padding; 0 where masked."""
    policy = TinyLM(model).eval()
    found = torch.zeros(responses.shape, dtype=torch.float64)
    with torch.no_grad():
        for row in range(len(responses)):
            prompt, response = input_ids[row, attention_mask[row]], responses[row, mask[row]]
            logits = policy(input_ids=torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1]
            log_probs = (logits / temperature).log_softmax(dim=-1)
            found[row, : len(response)] = log_probs.gather(1, response[:, None])[:, 0]
    return found


# Experience and its buffer


def experience_of(lesson: Any, tensors: dict[str, Tensor]) -> Any:
    return lesson.Experience(**tensors)


def plain(experience: Any) -> dict[str, Tensor]:
    return {field.name: getattr(experience, field.name) for field in fields(experience)}


def picked(lesson: Any, tensors: dict[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    """Some rows of an experience."""
    return plain(experience_of(lesson, tensors).rows(index))


def dealt(lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int, epochs: int = 1) -> dict[str, Any]:
    """The last of some epochs, in an order that does not depend on how the rows were shuffled.

    Gives the sizes of the minibatches, how many columns are padding in all rows of a minibatch, and every row cut to
    its own length, those of small scores first.
    """
    source = generator(seed)
    buffer = _filled(lesson, batches)
    for _ in range(epochs):
        minibatches = [plain(one) for one in buffer.minibatches(size, generator=source)]
    rows = [_row(one, number) for one in minibatches for number in range(len(one["scores"]))]
    return {
        "sizes": torch.tensor([len(one["scores"]) for one in minibatches]),
        "columns to spare": sum(_columns_to_spare(one) for one in minibatches),
        "rows in the buffer": len(buffer),
        "rows": tuple(sorted(rows, key=lambda row: float(row["scores"]))),
    }


def order_agreement(lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int) -> dict[str, bool]:
    """Which epochs deal their rows in the same order."""
    buffer = _filled(lesson, batches)

    def order(source: torch.Generator | None) -> Tensor:
        return torch.cat([one.scores for one in buffer.minibatches(size, source)])

    first, again, other = generator(seed), generator(seed), generator(seed + 1)
    dealt = order(first)
    return {
        "same seed": torch.equal(dealt, order(again)),
        "same generator, next epoch": torch.equal(dealt, order(first)),
        "other seed": torch.equal(dealt, order(other)),
        "as they were stored": torch.equal(dealt, torch.cat([batch["scores"] for batch in batches])),
        "each minibatch as it was stored": all(torch.equal(part, part.sort().values) for part in dealt.split(size)),
        "each minibatch of neighbours": all(len(part) == part.max() - part.min() + 1 for part in dealt.split(size)),
        "most rows beside their neighbour": bool((dealt.diff().abs() == 1).sum() > len(dealt) // 2),
    }


def order_agreement_without_generator(lesson: Any, batches: tuple[dict[str, Tensor], ...]) -> dict[str, bool]:
    """The same for the global generator."""
    buffer, dealt = _filled(lesson, batches), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        dealt.append(torch.cat([one.scores for one in buffer.minibatches(2)]))
    return {"same seed": torch.equal(dealt[0], dealt[1]), "other seed": torch.equal(dealt[0], dealt[2])}


def place_shares(lesson: Any, batches: tuple[dict[str, Tensor], ...], size: int, seed: int) -> Tensor:
    """How often each row is dealt first, in tenths; the scores are 0, 1, 2, ..."""
    buffer, source = _filled(lesson, batches), generator(seed)
    first = [next(iter(buffer.minibatches(size, source))).scores[0].item() for _ in range(2000)]
    return _tenths(torch.tensor(first)[None], len(buffer))[0]


def dealt_after_more(
    lesson: Any, first: dict[str, Tensor], second: dict[str, Tensor], forget: bool, seed: int
) -> Tensor:
    """Scores dealt after an epoch, then (`forget`) a clear, then another append; small ones first."""
    buffer, source = _filled(lesson, (first,)), generator(seed)
    list(buffer.minibatches(2, source))
    if forget:
        buffer.clear()
    buffer.append(experience_of(lesson, second))
    return torch.cat([one.scores for one in buffer.minibatches(2, source)]).sort().values


def _filled(lesson: Any, batches: tuple[dict[str, Tensor], ...]) -> Any:
    buffer = lesson.ExperienceBuffer()
    for tensors in batches:
        buffer.append(experience_of(lesson, tensors))
    return buffer


def _row(batch: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """One row, without its padding columns at both ends."""
    row = {name: tensor[number] for name, tensor in batch.items()}
    prompt_length = len(row["input_ids"]) - len(row["mask"])
    first = int(row["attention_mask"].long().argmax())
    length = int(row["mask"].nonzero().max()) + 1
    return {
        name: tensor
        if tensor.dim() == 0
        else (tensor[first : prompt_length + length] if name in ("input_ids", "attention_mask") else tensor[:length])
        for name, tensor in row.items()
    }


def _columns_to_spare(batch: dict[str, Tensor]) -> int:
    used = batch["attention_mask"].any(dim=0).nonzero()
    return int(used.min()) + batch["attention_mask"].shape[1] - 1 - int(used.max())


# The rollout


def _config(lesson: Any, options: dict[str, Any]) -> Any:
    return lesson.RolloutConfig(**{"stop_token_ids": (1,), "pad_token_id": 0, **options})


def judged(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    responses: Tensor,
    log_probs: Tensor,
    mask: Tensor,
    scores: Tensor,
    reference: Tensor,
    worth: Tensor,
    kl_coef: float,
    **options: Any,
) -> dict[str, Tensor]:
    """Evaluate responses: `reference` is the table of the reference policy, `worth` the critic's."""
    policy = Table(torch.zeros_like(reference))
    model = actor_critic(lesson, policy, TableCritic(worth)).train()
    generation = lesson.Generation(responses, log_probs, mask)
    config = _config(lesson, options)
    found = lesson.evaluate_responses(
        model,
        Table(reference).eval(),
        lambda *text: scores.clone(),
        input_ids,
        attention_mask,
        generation,
        config,
        kl_coef,
    )
    return plain(found)


def seen_by_score(
    lesson: Any, input_ids: Tensor, attention_mask: Tensor, responses: Tensor, mask: Tensor, **options: Any
) -> dict[str, Any]:
    """What the reward model is asked, and how often; the mode of actor, critic and reference afterwards."""
    asked = []

    def score(*text: Any) -> Tensor:
        asked.append(text)
        return torch.zeros(len(input_ids), dtype=torch.float64)

    table = torch.zeros(6, 6, dtype=torch.float64)
    model = actor_critic(lesson, Table(table), TableCritic(table[0])).train()
    model.value_model.inner.eval()
    reference = Table(table).train()
    before, reference_before = _modes(model), _modes(reference)
    zeros = torch.zeros(responses.shape, dtype=torch.float64)
    found = lesson.evaluate_responses(
        model,
        reference,
        score,
        input_ids,
        attention_mask,
        lesson.Generation(responses, zeros, mask),
        _config(lesson, options),
        0.1,
    )
    names = ("input_ids", "attention_mask", "prompt_length")
    last = dict(zip(names, asked[-1] if asked else (), strict=False))
    return {
        "times asked": len(asked),
        **last,
        "modes as before": before == _modes(model),
        "all in train mode": all(_modes(model)),
        "mode of the reference as before": reference_before == _modes(reference),
        "can be used for training": _can_be_used_for_training(found),
    }


def _can_be_used_for_training(experience: Any) -> bool:
    """Tensors made in `torch.inference_mode` cannot: no later gradient may touch them."""
    return not any(tensor.is_inference() for tensor in plain(experience).values())


def modes_after_an_error_of_the_critic(lesson: Any, training: Tensor) -> Tensor:
    """The modes of policy, critic and dropout in both after a critic that breaks; `training` says what they were."""

    class Breaks(TableCritic):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            raise ArithmeticError("broken on purpose")

    ids, table = torch.tensor([[2], [3]]), torch.zeros(5, 5, dtype=torch.float64)
    model = actor_critic(lesson, Table(table), Breaks(table[0]))
    modules = [model.policy, model.policy.inner[1], model.value_model, model.value_model.inner]
    for module, mode in zip(modules, training.tolist(), strict=True):
        module.training = mode
    generation = lesson.Generation(ids, torch.zeros(2, 1, dtype=torch.float64), ids > -1)
    try:
        lesson.evaluate_responses(
            model, Table(table).eval(), lambda *text: table[0, :2], ids, ids > -1, generation, _config(lesson, {}), 0.1
        )
    except ArithmeticError:
        return torch.tensor([module.training for module in modules])
    raise RuntimeError("the critic was not asked")


def _modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def judged_by_its_own_base(
    lesson: Any, input_ids: Tensor, responses: Tensor, table: Tensor, base: Tensor
) -> dict[str, Any]:
    """Evaluate a LoRA policy without a reference model: ref_log_probs, and whether its adapter is on afterwards."""
    policy = Adapted(table, base)
    model = actor_critic(lesson, policy, TableCritic(torch.zeros(len(table), dtype=torch.float64)))
    mask = torch.ones_like(responses, dtype=torch.bool)
    zeros = torch.zeros(responses.shape, dtype=torch.float64)
    found = lesson.evaluate_responses(
        model,
        None,
        lambda *text: zeros[:, 0],
        input_ids,
        input_ids > -1,
        lesson.Generation(responses, zeros, mask),
        _config(lesson, {}),
        0.1,
    )
    return {"ref_log_probs": found.ref_log_probs, "adapter on": policy.is_on}


def judged_with_scores(lesson: Any, scores: Any) -> Tensor:
    """Rewards of two responses when the reward model answers with these scores."""
    ids, table = torch.tensor([[2], [3]]), torch.zeros(5, 5, dtype=torch.float64)
    zeros = torch.zeros(2, 1, dtype=torch.float64)
    generation = lesson.Generation(ids, zeros, ids > -1)
    model = actor_critic(lesson, Table(table), TableCritic(table[0]))
    return lesson.evaluate_responses(
        model, Table(table).eval(), lambda *text: scores, ids, ids > -1, generation, _config(lesson, {}), 0.1
    ).rewards


def lm_judged(
    lesson: Any,
    model: int,
    input_ids: Tensor,
    attention_mask: Tensor,
    responses: Tensor,
    log_probs: Tensor,
    mask: Tensor,
    kl_coef: float,
    shared: bool = False,
    **options: Any,
) -> dict[str, Tensor]:
    """Evaluate responses with tiny language models: absolute positions, padding on both sides."""
    generation = lesson.Generation(responses, log_probs, mask)
    found = lesson.evaluate_responses(
        _lm_actor_critic(lesson, model, shared),
        TinyLM(model + 1).eval(),
        mean_token,
        input_ids,
        attention_mask,
        generation,
        _config(lesson, options),
        kl_coef,
    )
    return plain(found)


def mean_token(input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> Tensor:
    """A reward function of the whole text: the mean number of its real tokens, minus 3."""
    return (input_ids * attention_mask).sum(dim=1) / attention_mask.sum(dim=1).double() - 3


def _lm_actor_critic(lesson: Any, seed: int, shared: bool) -> nn.Module:
    lesson07 = _sibling(lesson, "lesson07_actor_critic")
    if shared:
        model = lesson07.SharedPolicyAndValue(TinyLM(seed)).double()
        head = model.value_head
    else:
        model = lesson07.PolicyAndValue(TinyLM(seed), lesson07.ValueModel(TinyBody(seed + 2))).double()
        head = model.value_model.head
    with torch.no_grad():
        head.weight.normal_(generator=generator(seed))
    return model


def lm_collected(
    lesson: Any,
    model: int,
    input_ids: Tensor,
    attention_mask: Tensor,
    kl_coef: float,
    seed: int,
    shared: bool = False,
    **options: Any,
) -> dict[str, Tensor]:
    """Collect experience with tiny language models."""
    found = lesson.collect_experience(
        _lm_actor_critic(lesson, model, shared),
        TinyLM(model + 1).eval(),
        mean_token,
        input_ids,
        attention_mask,
        _config(lesson, options),
        kl_coef,
        generator(seed),
    )
    return plain(found)


def collected(
    lesson: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    table: Tensor,
    reference: Tensor,
    worth: Tensor,
    scores: Tensor,
    kl_coef: float,
    seed: int,
    **options: Any,
) -> dict[str, Tensor]:
    """Collect experience with tables for policy, reference and critic."""
    model = actor_critic(lesson, Table(table), TableCritic(worth)).train()
    found = lesson.collect_experience(
        model,
        Table(reference).eval(),
        lambda *text: scores.clone(),
        input_ids,
        attention_mask,
        _config(lesson, options),
        kl_coef,
        generator=generator(seed),
    )
    return plain(found)


def collected_shares(
    lesson: Any, table: Tensor, reference: Tensor, prompt: int, seed: int, **options: Any
) -> dict[str, Tensor]:
    """Many responses of one or more tokens to one prompt: shares, and the log-probabilities stored with each token."""
    ids = torch.full((DRAWS, 1), prompt)
    worth = torch.zeros(len(table), dtype=torch.float64)
    found = lesson.collect_experience(
        actor_critic(lesson, Table(table), TableCritic(worth)),
        Table(reference).eval(),
        lambda *text: torch.zeros(DRAWS, dtype=torch.float64),
        ids,
        ids > -1,
        _config(lesson, options),
        0.1,
        generator=generator(seed),
    )
    return {
        "shares": _tenths(found.responses.T, len(table)),
        "log_probs": _mean_by_token(found.responses, found.log_probs, len(table)),
        "ref_log_probs": _mean_by_token(found.responses, found.ref_log_probs, len(table)),
        "can be used for training": _can_be_used_for_training(found),
    }


def modes_after_collecting(lesson: Any, table: Tensor, training: Tensor) -> Tensor:
    """The modes of policy, critic and dropout in both after a rollout; `training` says what they were."""
    model = actor_critic(lesson, Table(table), TableCritic(torch.zeros(len(table), dtype=torch.float64)))
    modules = [model.policy, model.policy.inner[1], model.value_model, model.value_model.inner]
    for module, mode in zip(modules, training.tolist(), strict=True):
        module.training = mode
    ids = torch.tensor([[2], [3]])
    config = _config(lesson, {"max_new_tokens": 2})
    lesson.collect_experience(
        model, Table(table).eval(), lambda *text: table.new_zeros(2), ids, ids > -1, config, 0.1, generator(0)
    )
    return torch.tensor([module.training for module in modules])


def collected_agreement(lesson: Any, table: Tensor, seed: int) -> dict[str, bool]:
    """Which of several rollouts agree: 20 responses of 4 tokens."""
    ids = torch.full((20, 1), 2)
    worth = torch.zeros(len(table), dtype=torch.float64)
    model = actor_critic(lesson, Table(table), TableCritic(worth))
    config = _config(lesson, {"max_new_tokens": 4, "stop_token_ids": (len(table),)})

    def write(source: torch.Generator) -> Tensor:
        return lesson.collect_experience(
            model, Table(table).eval(), lambda *text: worth.new_zeros(20), ids, ids > -1, config, 0.1, source
        ).responses

    first, again, other = generator(seed), generator(seed), generator(seed + 1)
    drawn = write(first)
    return {
        "same seed": torch.equal(drawn, write(again)),
        "same generator once more": torch.equal(drawn, write(first)),
        "other seed": torch.equal(drawn, write(other)),
    }


def collected_agreement_without_generator(lesson: Any, table: Tensor) -> dict[str, bool]:
    """The same for the global generator."""
    ids, drawn = torch.full((20, 1), 2), []
    worth = torch.zeros(len(table), dtype=torch.float64)
    model = actor_critic(lesson, Table(table), TableCritic(worth))
    config = _config(lesson, {"max_new_tokens": 4, "stop_token_ids": (len(table),)})
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found = lesson.collect_experience(
            model, Table(table).eval(), lambda *text: worth.new_zeros(20), ids, ids > -1, config, 0.1
        )
        drawn.append(found.responses)
    return {"same seed": torch.equal(drawn[0], drawn[1]), "other seed": torch.equal(drawn[0], drawn[2])}
