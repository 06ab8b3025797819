"""Policy, critic and reward model as tables, so that each number is worked out by hand. No table knows of a lesson."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from testcases.harness.doubles.outputs import HuggingFaceModel, Output, last_places


class Config(SimpleNamespace):
    """The parts of a Hugging Face config that are read; to `DynamicCache(config=...)`, one layer of full attention."""

    layer_types = ("full_attention",)
    num_hidden_layers = 1

    @property
    def per_layer_config(self) -> list[Config]:
        return [self]

    def get_text_config(self, decoder: bool = False) -> Config:
        return self


class Cache:
    """Like the `DynamicCache` of transformers, which takes seconds to import; a model takes either."""

    def __init__(self) -> None:
        self._read: list[tuple[Tensor, Tensor]] = []

    def get_seq_length(self) -> int:
        return sum(keys.shape[-2] for keys, _ in self._read)

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, ...]:
        """All keys and values until now, (B, 1, columns, H)."""
        self._read.append((keys, values))
        return tuple(torch.cat(parts, dim=-2) for parts in zip(*self._read, strict=True))

    def reorder_cache(self, rows: Tensor) -> None:
        """Keep only these rows."""
        self._read = [(keys[rows], values[rows]) for keys, values in self._read]

    batch_select_indices = reorder_cache


class TablePolicy(HuggingFaceModel):
    """Speaks like a causal language model of Hugging Face: logits = table[token] + places[position].

    Its cache holds the tokens that it has read and, with those of the first pass, their row numbers: a caller may keep
    only some rows of a cache. Made from a config it is all 0, until weights are loaded.
    """

    rows: Tensor
    """Which rows of the first pass are read now."""

    def __init__(self, table: Tensor | Config, places: Tensor | None = None) -> None:
        super().__init__()
        if isinstance(table, Config):
            shape, more = table.shapes
            table, places = torch.zeros(shape), None if more is None else torch.zeros(more)
        self.table = nn.Parameter(table.clone())
        self.places = None if places is None else nn.Parameter(places.clone())
        shapes = table.shape, None if places is None else places.shape
        self.config = Config(max_position_embeddings=64 if places is None else len(places), shapes=shapes)

    def logits_of(self, input_ids: Tensor) -> Tensor:
        return self.table[input_ids]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        labels: Tensor | None = None,
        **ignored: Any,
    ) -> Output:
        cache = Cache() if past_key_values is None else past_key_values
        seen, read = cache.get_seq_length(), input_ids[:, None, :, None]
        numbers = torch.arange(len(read))[:, None, None, None].expand_as(read)
        self.rows = cache.update(read, read if seen else numbers, 0)[1][:, 0, 0, 0]
        logits = self.logits_of(input_ids)
        if self.places is not None:
            columns = torch.arange(seen, seen + input_ids.shape[1]).expand_as(input_ids)
            logits = logits + self.places[columns if position_ids is None else position_ids]
        return Output(
            loss=None if labels is None else nn.functional.cross_entropy(logits[:, :-1].mT, labels[:, 1:]),
            logits=last_places(logits, logits_to_keep),
            past_key_values=None if use_cache is False else cache,
        )


class TableCritic(nn.Module):
    """Speaks like `ValueModel`: values = table[token], and a hundredth of the position where there are places."""

    def __init__(self, table: Tensor, has_places: bool = False) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.has_places = has_places

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        values = self.table[input_ids]
        if not self.has_places:
            return values
        is_real = attention_mask.to(values.dtype)
        return values + 0.01 * (is_real.cumsum(dim=1) - 1) * is_real


class TableReward(nn.Module):
    """Speaks like `RewardModel`: the score of a text is the sum over its real tokens."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.table[input_ids].masked_fill(~attention_mask.bool(), 0.0).sum(dim=1)


class Wrapped(nn.DataParallel):
    """A wrapper like Accelerate's for several processes: every pass has to go through it."""

    def __init__(self, model: nn.Module) -> None:
        nn.Module.__init__(self)
        self.module = model
        self.passes = 0

    def forward(self, *given: Any, **named: Any) -> Any:
        self.passes += 1
        return self.module(*given, **named)
