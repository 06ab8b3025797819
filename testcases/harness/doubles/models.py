"""Models and tokenizers that speak like those of Hugging Face, without transformers, which takes seconds to import.

Policy, critic and reward model are tables, so that each number is worked out by hand; none knows of a lesson. Then come
a small transformer with weights from a seed, and tokenizers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from string import ascii_lowercase
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from .drawing import normal, normal_from


class Output(dict[str, Any]):
    """By name, by attribute and by place, as `ModelOutput`; what is None is an attribute only."""

    def __init__(self, **parts: Any) -> None:
        super().__init__({name: part for name, part in parts.items() if part is not None})
        self.__dict__.update(parts)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self.values())


class HuggingFaceModel(nn.Module):
    """Speaks like a model of Hugging Face; its `forward` gives an Output, with all hidden states where it has them."""

    def __init_subclass__(cls) -> None:
        if "forward" in vars(cls):
            cls.forward = _as_asked(cls.forward)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype


def _as_asked(forward: Callable[..., Output]) -> Callable[..., Any]:
    """A tuple with `return_dict=False`, and no hidden states without `output_hidden_states`."""

    @functools.wraps(forward)
    def answer(
        self: Any, *given: Any, return_dict: bool | None = None, output_hidden_states: bool | None = None, **named: Any
    ) -> Any:
        output = forward(self, *given, **named)
        if not output_hidden_states:
            output = Output(**{**vars(output), "hidden_states": None})
        return output.to_tuple() if return_dict is False else output

    return answer


def last_places(tensor: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The columns of (B, L, ...) that a language model computes logits for: so many at the end, all for 0, or these."""
    return tensor[:, slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep]


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


class TinyBackbone(HuggingFaceModel):
    """One attention layer of width 16, in float64, over 12 tokens, with *absolute* positions and a key-value cache.

    As in Hugging Face's GPT-2, positions default to the column numbers, and a mask that is too short hides the newest.
    """

    def __init__(self, seed: int, n_positions: int = 24) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(normal_from(draw, *shape))

        self.config = Config(hidden_size=16, max_position_embeddings=n_positions)
        self.tokens, self.places = weight(12, 16), weight(n_positions, 16)
        self.queries, self.keys, self.values = weight(16, 16), weight(16, 16), weight(16, 16)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        **ignored: Any,
    ) -> Output:
        cache = Cache() if past_key_values is None else past_key_values
        old, new = cache.get_seq_length(), input_ids.shape[1]
        if position_ids is None:
            position_ids = torch.arange(old, old + new).expand_as(input_ids)
        read = self.tokens[input_ids] + self.places[position_ids]
        keys, values = (
            kept.squeeze(1) for kept in cache.update((read @ self.keys)[:, None], (read @ self.values)[:, None], 0)
        )
        visible = torch.ones(keys.shape[:2], dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        visible = nn.functional.pad(visible, (0, old + new - visible.shape[1]))
        allowed = visible[:, None] & torch.ones(new, old + new, dtype=torch.bool).tril(old)
        weights = (read @ self.queries @ keys.mT / 16).masked_fill(~allowed, -1e300).softmax(dim=-1)
        hidden = torch.tanh(read / 2 + weights @ values / 4)
        kept = None if use_cache is False else cache
        return Output(last_hidden_state=hidden, past_key_values=kept, hidden_states=(read, hidden))


class TinyLM(HuggingFaceModel):
    """A language model on a `TinyBackbone`, with the interface of Hugging Face's."""

    def __init__(self, seed: int, n_positions: int = 24) -> None:
        super().__init__()
        self.base_model = TinyBackbone(seed, n_positions)
        self.config = self.base_model.config
        self.lm_head = nn.Linear(16, 12, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.lm_head.weight.copy_(normal(12, 16, seed=seed + 100))

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, *given: Any, logits_to_keep: int | Tensor = 0, **named: Any) -> Output:
        body = vars(self.base_model(input_ids, *given, output_hidden_states=True, **named))
        return Output(logits=self.lm_head(last_places(body.pop("last_hidden_state"), logits_to_keep)), **body)


class Line(nn.Module):
    """y = x: the base model under the adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.slope.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.slope(x)


class Words:
    """Each word is a token; its number is its place in `words`. Those in angle brackets are special.

    Token 0 is padding, token 1 stops a response; a word that is not there becomes "<unk>".
    """

    pad_token_id, eos_token_id = 0, 1

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def __len__(self) -> int:
        return len(self.words)

    def __call__(
        self, text: str | list[str], padding: bool = False, return_tensors: str | None = None, **rest: Any
    ) -> Output:
        """Ids and attention mask of one text, or of several; they are padded on the left."""
        texts = [text] if isinstance(text, str) else text
        rows = [[self._id_of(word) for word in one.split()] for one in texts]
        width = max(map(len, rows), default=0) if padding else 0
        found: dict[str, Any] = {
            "input_ids": [[self.pad_token_id] * (width - len(row)) + row for row in rows],
            "attention_mask": [[0] * (width - len(row)) + [1] * len(row) for row in rows],
        }
        if return_tensors == "pt":
            found = {name: torch.tensor(ids) for name, ids in found.items()}
        elif isinstance(text, str):
            found = {name: ids[0] for name, ids in found.items()}
        return Output(**found)

    def encode(self, text: str, **options: Any) -> Any:
        return self(text, **options)["input_ids"]

    def _id_of(self, word: str) -> int:
        return self.words.index(word if word in self.words else "<unk>")

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **rest: Any) -> Any:
        """The text of one row of ids, a tensor, a list or a single number; of several rows their texts."""
        rows = token_ids if isinstance(token_ids, (list, tuple)) else torch.atleast_1d(torch.as_tensor(token_ids))
        if any(torch.as_tensor(one).dim() for one in rows):
            return [self.decode(row, skip_special_tokens) for row in rows]
        words = [self.words[int(one)] for one in rows]
        return " ".join(word for word in words if not (skip_special_tokens and word.startswith("<")))

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False, **rest: Any) -> list[str]:
        texts = self.decode(sequences, skip_special_tokens)
        return [texts] if isinstance(texts, str) else texts


class Letters(Words):
    """Token 2 is "a", token 3 is "b", and so on."""

    def __init__(self) -> None:
        super().__init__(("<pad>", "<stop>", *ascii_lowercase))
