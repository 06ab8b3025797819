"""Policies of the toy environment that are tables and scripts instead of neural networks."""

import itertools
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from testcases.harness.doubles.models import Cache, HuggingFaceModel, Output, TablePolicy, Words, last_places
from tiny_models.language import VOCABULARY

PAD, EOS = 0, 1
WORDS = ("<pad>", "<eos>", "<unk>", *VOCABULARY)
TOKENIZER = Words(WORDS)


def uniform() -> Tensor:
    return torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)


class WatchedPolicy(TablePolicy):
    """Its table counts `gain` times. `forwards`: of each with a gradient its mode, then the first token of each row.

    Its dropout drops nothing, and has a mode all the same.
    """

    def __init__(self, table: Tensor, places: Tensor | None = None, gain: float = 1.0) -> None:
        super().__init__(table, places)
        self.gain, self.dropout = gain, nn.Dropout(0.0)
        self.forwards: list[list[Any]] = []

    def logits_of(self, input_ids: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.forwards.append([self.training and self.dropout.training, *input_ids[:, 0].tolist()])
        return self.gain * super().logits_of(input_ids)


class DroppingPolicy(TablePolicy):
    """In train mode half of the logits are dropped, as chance has it."""

    def __init__(self, table: Tensor, places: Tensor | None = None) -> None:
        super().__init__(table, places)
        self.dropout = nn.Dropout(0.5)

    def forward(self, *given: Any, past_key_values: Any = None, **named: Any) -> Output:
        output = super().forward(*given, past_key_values=past_key_values, **named)
        return Output(**{**vars(output), "logits": self.dropout(output.logits)})


class ScriptedPolicy(TablePolicy):
    """Answers each prompt with the response of a script, for certain; "<eos>" has to be written there."""

    def __init__(self, script: dict[str, str]) -> None:
        super().__init__(uniform())
        self.script = {prompt: TOKENIZER(text)["input_ids"] for prompt, text in script.items()}

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past_key_values: Any = None,
        logits_to_keep: int | Tensor = 0,
        **rest: Any,
    ) -> Output:
        cache, new = Cache() if past_key_values is None else past_key_values, input_ids[:, None, :, None]
        ids = cache.update(new, new, 0)[0][:, 0, :, 0]
        logits = torch.zeros(*input_ids.shape, len(WORDS), dtype=torch.float64)
        for row, column in itertools.product(*map(range, input_ids.shape)):
            end = ids.shape[1] - input_ids.shape[1] + column + 1
            text = TOKENIZER.decode(ids[row, :end][attention_mask[row, :end].bool()])
            prompt = next((one for one in self.script if text.startswith(one)), None)
            if prompt is not None:
                spoken = len(text.split()) - len(prompt.split())
                token = self.script[prompt][spoken] if spoken < len(self.script[prompt]) else PAD
                logits[row, column, token] = 1000.0
        return Output(logits=last_places(logits, logits_to_keep), past_key_values=cache)


class TableBackbone(HuggingFaceModel):
    """A backbone without a head: the hidden state of a token is its row of a table."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.config = SimpleNamespace(hidden_size=table.shape[1])

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **ignored: Any) -> Output:
        hidden = self.table[input_ids]
        return Output(last_hidden_state=hidden, hidden_states=(hidden,))


def modules_of(**models: nn.Module) -> dict[str, nn.Module]:
    """Each model and its parts by name, such as "policy" and "policy.dropout"."""
    return {
        f"{name}.{path}".rstrip("."): part for name, model in models.items() for path, part in model.named_modules()
    }


def modes_of(modules: dict[str, nn.Module]) -> dict[str, bool]:
    return {name: module.training for name, module in modules.items()}


def changed_modes(modules: dict[str, nn.Module], before: dict[str, bool]) -> list[str]:
    return [name for name, mode in modes_of(modules).items() if mode != before[name]]
