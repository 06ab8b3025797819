"""The models that come with the course, and responses that they write."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from solutions.lesson08_rollout import generate
from tiny_models import builders, checkpoints

logging.disable_progress_bar()
logging.set_verbosity_error()

TOKENIZER = AutoTokenizer.from_pretrained(checkpoints.SFT)
PAD, EOS = TOKENIZER.pad_token_id, TOKENIZER.eos_token_id


def sft_model() -> Any:
    return AutoModelForCausalLM.from_pretrained(checkpoints.SFT).eval()


def new_model(**shape: int) -> Any:
    """A GPT-2 for the course's words that has learned nothing, of the SFT model's shape if no other is given."""
    return builders.build_gpt2(len(TOKENIZER), eos_token_id=EOS, pad_token_id=PAD, **shape)


class Batch:
    """Prompts, the response that a policy has sampled to each, and both together, as a model reads them.

    Args:
        policy: that writes.
        prompts: texts.
        chance: for the sampler.
        max_new_tokens: of a response.
        generate: lesson 8's function; the course's, if left out.
        sampling: what else it takes.
    """

    def __init__(
        self,
        policy: nn.Module,
        prompts: Sequence[str],
        chance: torch.Generator,
        max_new_tokens: int = 20,
        generate: Callable[..., Any] = generate,
        **sampling: float,
    ) -> None:
        encoded = TOKENIZER(list(prompts), padding=True, return_tensors="pt")
        self.prompt_ids, self.prompt_mask = encoded.input_ids, encoded.attention_mask.bool()
        asked = policy, self.prompt_ids, self.prompt_mask, max_new_tokens, (EOS,), PAD
        self.responses, self.log_probs, self.mask = generate(*asked, generator=chance, **sampling)
        self.input_ids = torch.cat([self.prompt_ids, self.responses], dim=1)
        self.visible = torch.cat([self.prompt_mask, self.mask], dim=1)
        self.P = self.prompt_ids.shape[1]

    def __len__(self) -> int:
        return len(self.responses)


def encode(prompts: Sequence[str], texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask of prompts with finished responses, (B, L) each."""
    rows = [f"{prompt} {text} {TOKENIZER.eos_token}" for prompt, text in zip(prompts, texts, strict=True)]
    batch = TOKENIZER(rows, padding=True, return_tensors="pt")
    return batch.input_ids, batch.attention_mask.bool()
