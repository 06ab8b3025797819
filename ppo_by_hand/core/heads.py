"""The head of reward model and critic, and what it has to know of the model below it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


class ScalarHead(nn.Linear):
    """One number from a hidden state, in float32 at least: it is trained, and in 16 bits most steps would be lost."""

    def __init__(self, size: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(size, 1)
        self.to(torch.promote_types(dtype, torch.float32))

    def forward(self, hidden: Tensor) -> Tensor:
        return super().forward(hidden.to(self.weight.dtype))


def scalar_head(size: int, dtype: torch.dtype = torch.float32) -> nn.Linear:
    """A head for a backbone of this dtype; small weights start all numbers near 0 (Stiennon et al., 2020)."""
    head = ScalarHead(size)
    nn.init.normal_(head.weight, std=1 / (size + 1) ** 0.5)
    nn.init.zeros_(head.bias)
    return head.to(torch.promote_types(dtype, torch.float32))


def text_config(model: Any) -> Any:
    """The configuration that has the sizes of the language model; one that reads pictures as well keeps them apart."""
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def hidden_size(model: Any) -> int:
    """The width of the last hidden states; OPT-350m projects them to the width of its embeddings."""
    config = text_config(model)
    return int(getattr(config, "word_embed_proj_dim", None) or config.hidden_size)


def dtype_of(backbone: nn.Module) -> torch.dtype:
    """The dtype of a backbone's weights, and so of its outputs."""
    return next((weight.dtype for weight in backbone.parameters() if weight.is_floating_point()), torch.float32)


def start_from_classifier(critic: Any, classifier: Any) -> Any:
    """Give a critic whose backbone is the classifier's a copy of it, and of its head of one linear layer.

    Raises:
        ValueError: the head is another.
    """
    head = getattr(classifier, "score", None)
    if not isinstance(head, nn.Linear) or head.out_features != 1:
        raise ValueError(
            "expected a sequence classifier whose head is one linear layer with one label, got "
            f"{type(classifier).__name__}; start from a backbone: ValueModel(AutoModel.from_pretrained(name))"
        )
    critic.backbone = copy.deepcopy(classifier.base_model)
    with torch.no_grad():
        critic.head.weight.copy_(head.weight)
        if head.bias is not None:
            critic.head.bias.copy_(head.bias)
    return critic.requires_grad_(True)
