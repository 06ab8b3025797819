"""Toy models whose outputs are digits: each number shows what the backbone was given.

`Digits` gives token `id` at position `pos`, with `seen` real tokens up to and including it, the features (id, pos,
seen). A head of weights (1, 10, 100) turns them into digits: the second token of a text, a 5, gives 215. Of each number
the last digit is kept, which any dtype can hold.
Without position ids it counts columns, and without a mask it sees padding, as GPT-2 does.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from testcases.harness.doubles.models import HuggingFaceModel, Output, last_places

DIGITS = [[1.0, 10.0, 100.0]]


class Digits(HuggingFaceModel):
    """A backbone without attention: features (id, pos, seen), times `gain`.

    As with GPT-2, the second positional argument is not the mask.
    """

    def __init__(self, gain: float = 1.0, refuses_a_cache: bool = False) -> None:
        super().__init__()
        self.refuses_a_cache = refuses_a_cache
        self.config = SimpleNamespace(hidden_size=3)
        self.gain = nn.Parameter(torch.full((3,), gain))
        self.register_buffer("offset", torch.zeros(3))
        self.calls = 0

    def forward(
        self,
        input_ids: Tensor,
        *,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        use_cache: bool = True,
        **ignored: Any,
    ) -> Output:
        if use_cache and self.refuses_a_cache:
            raise ValueError("expected use_cache=False: keys and values are kept for no later token")
        self.calls += 1
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        columns = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        positions = columns if position_ids is None else position_ids.expand_as(input_ids)
        features = torch.stack([input_ids, positions, mask.cumsum(dim=1)], dim=-1) % 10
        hidden = features.to(self.gain.dtype) * self.gain + self.offset
        embedded = features.to(hidden.dtype)
        return Output(last_hidden_state=hidden, hidden_states=(embedded, -embedded, hidden))


class DigitPolicy(HuggingFaceModel):
    """A language model of two words on `Digits`: logits (215, -215) after a 5 in second place.

    Its head has the name that GPT-NeoX gives it, and is not tied to the embeddings. `words_for`: how many positions
    it has computed logits for, over all rows and calls. What its head gives is multiplied by `scale`, as in Cohere's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=3)
        self.transformer = Digits()
        self.embed_in = nn.Embedding.from_pretrained(torch.ones(2, 3))
        self.embed_out = nn.Linear(3, 2)
        self.words_for, self.scale = 0, 1.0
        with torch.no_grad():
            self.embed_out.weight.copy_(torch.tensor([*DIGITS, [-1.0, -10.0, -100.0]]))
            self.embed_out.bias.zero_()
        self.embed_out.register_forward_pre_hook(self._count)

    def _count(self, head: nn.Module, given: tuple[Tensor]) -> None:
        self.words_for += given[0].shape[:-1].numel()

    @property
    def base_model(self) -> nn.Module:
        return self.transformer

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_in

    def get_output_embeddings(self) -> nn.Module:
        return self.embed_out

    def forward(self, input_ids: Tensor, *, logits_to_keep: int | Tensor = 0, **given: Any) -> Output:
        states = self.transformer(input_ids, output_hidden_states=True, **given).hidden_states
        logits = self.embed_out(last_places(states[-1], logits_to_keep)) * self.scale
        return Output(logits=logits, hidden_states=states)


class DigitCritic(nn.Module):
    """A finished critic: 215.5 after a 5 in second place."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Digits()
        self.head = digit_head()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.long()
        positions = (mask.cumsum(dim=1) - 1) * mask
        hidden = self.backbone(input_ids=input_ids, attention_mask=mask, position_ids=positions).last_hidden_state
        return self.head(hidden).squeeze(-1)


def digit_head() -> nn.Linear:
    head = nn.Linear(3, 1)
    with torch.no_grad():
        head.weight.copy_(torch.tensor(DIGITS))
        head.bias.fill_(0.5)
    return head
