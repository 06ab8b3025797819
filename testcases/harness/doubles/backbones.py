"""A small transformer with weights from a seed, and a linear model for adapters."""

from typing import Any

import torch
from torch import Tensor, nn

from testcases.harness.doubles.drawing import normal, normal_from
from testcases.harness.doubles.outputs import HuggingFaceModel, Output, last_places
from testcases.harness.doubles.policies import Cache, Config


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
