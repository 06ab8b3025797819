"""Builders of tiny causal language models with random weights: a GPT-2 and a Llama of about the same size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


def build_gpt2(
    vocab_size: int,
    *,
    n_layer: int = 2,
    n_embd: int = 64,
    n_head: int = 4,
    n_positions: int = 64,
    dropout: float = 0.0,
    eos_token_id: int,
    pad_token_id: int,
    seed: int = 0,
) -> GPT2LMHeadModel:
    """Build a GPT-2: learned absolute positions, so wrong position ids under left padding change the logits.

    Args:
        vocab_size: number of tokens, `len(tokenizer)`.
        n_embd: width; a multiple of `n_head` with an even quotient.
        n_positions: the longest sequence, prompt and response together.
        dropout: on embeddings, residual branches and attention, in train mode. Keep 0 for PPO: with dropout
            two passes of one policy differ, so the ratio is not 1 on the first step.
        seed: determines every weight; the global random state is left as it was.

    Returns:
        A model on the CPU in eval mode, in torch's default dtype.

    Raises:
        ValueError: the width does not fit the heads, or a special token is outside the vocabulary.
    """
    _check_shape(vocab_size, n_embd, n_head, eos_token_id, pad_token_id)
    config = GPT2Config(
        vocab_size=vocab_size,
        n_layer=n_layer,
        n_embd=n_embd,
        n_head=n_head,
        n_positions=n_positions,
        activation_function="gelu_pytorch_tanh",  # the same function as gelu_new, in one fused kernel
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        initializer_range=_initial_std(n_embd),
        bos_token_id=None,
        eos_token_id=eos_token_id,
        pad_token_id=pad_token_id,
    )
    with _seeded(seed):
        return GPT2LMHeadModel(config).eval()


def build_llama(
    vocab_size: int,
    *,
    n_layer: int = 2,
    n_embd: int = 64,
    n_head: int = 4,
    n_positions: int = 64,
    dropout: float = 0.0,
    eos_token_id: int,
    pad_token_id: int,
    seed: int = 0,
) -> LlamaForCausalLM:
    """Build a Llama: rotary positions, so only distances between tokens matter; there is no position table.

    Arguments, result and errors are those of `build_gpt2`, except that Llama has dropout in attention only,
    and that `n_positions` is a promise in the config, not the size of a table. Embeddings are tied, and the
    gated MLP is 8/3 times the width instead of 4, so that both have about as many parameters.
    """
    _check_shape(vocab_size, n_embd, n_head, eos_token_id, pad_token_id)
    config = LlamaConfig(
        vocab_size=vocab_size,
        num_hidden_layers=n_layer,
        hidden_size=n_embd,
        intermediate_size=8 * -(-n_embd // 3),  # 8/3 of the width, rounded up to a multiple of 8
        num_attention_heads=n_head,
        num_key_value_heads=n_head,
        max_position_embeddings=n_positions,
        attention_dropout=dropout,
        initializer_range=_initial_std(n_embd),
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=eos_token_id,
        pad_token_id=pad_token_id,
    )
    with _seeded(seed):
        return LlamaForCausalLM(config).eval()


def _initial_std(n_embd: int) -> float:
    """Standard deviation of the initial weights: GPT-2's 0.02 at a width of 768, larger for a narrower model."""
    return 0.02 * (768 / n_embd) ** 0.5


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    # Drawn on the CPU even where a GPU is the default device: one seed means one model everywhere.
    # Not torch.manual_seed: it would seed the GPUs too, and fork_rng(devices=[]) does not restore those.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        yield


def _check_shape(vocab_size: int, n_embd: int, n_head: int, eos_token_id: int, pad_token_id: int) -> None:
    if n_head < 1 or n_embd % (2 * n_head) != 0:
        raise ValueError(
            f"expected n_embd to be a multiple of 2 * n_head, got n_embd={n_embd}, n_head={n_head}; "
            f"each head gets n_embd / n_head numbers, and rotary positions turn them in pairs"
        )
    for name, token_id in (("eos_token_id", eos_token_id), ("pad_token_id", pad_token_id)):
        if not 0 <= token_id < vocab_size:
            raise ValueError(
                f"expected {name} in 0..{vocab_size - 1}, got {token_id}; pass vocab_size=len(tokenizer), "
                f"which counts the special tokens"
            )
