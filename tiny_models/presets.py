"""Presets: how large the models are and how long each stage trains. Chosen by name, never by editing code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """One size of the capstone. Sizes are in tokens, rows or optimizer steps, as the names say."""

    name: str
    summary: str
    """One line for `make help` and error messages."""
    n_layer: int = 2
    n_embd: int = 64
    n_head: int = 4
    threads: int | None = None
    """CPU threads; tiny models lose more to the coordination of two than they gain. None: all of them."""
    demonstrations: int = 18_432
    """Reviews the SFT model learns from; each is seen once."""
    sft_batch_size: int = 16
    sft_learning_rate: float = 5e-3
    preference_pairs: int = 4608
    """Comparisons the reward model learns from; each is seen once."""
    reward_batch_size: int = 16
    reward_learning_rate: float = 2e-3
    held_out_pairs: int = 384
    """Comparisons the reward model never sees, for its accuracy."""
    ppo_updates: int = 50
    ppo_batch_size: int = 64
    ppo_epochs: int = 2
    ppo_learning_rate: float = 2e-3
    kl_coef: float = 0.09
    max_new_tokens: int = 20
    """The longest review of the language has 16 words and a stop token."""
    evaluation_responses: int = 768


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("tiny", "2 layers x 64, trained from nothing on a laptop CPU in under a minute", threads=1),
        Preset(
            "small",
            "6 layers x 384 (about 10 M parameters), minutes on a CPU",
            n_layer=6,
            n_embd=384,
            n_head=6,
            demonstrations=8192,
            sft_batch_size=32,
            sft_learning_rate=1e-3,
            preference_pairs=2304,
            reward_batch_size=32,
            reward_learning_rate=6e-4,
            ppo_updates=30,
            ppo_batch_size=32,
            ppo_learning_rate=2e-4,
            evaluation_responses=256,
        ),
        Preset(
            "gpt2",
            "12 layers x 768 (the shape of GPT-2 124M), for one GPU",
            n_layer=12,
            n_embd=768,
            n_head=12,
            sft_learning_rate=3e-4,
            reward_learning_rate=1e-4,
            ppo_learning_rate=3e-5,
        ),
    )
}


def find_preset(name: str) -> Preset:
    """The preset of this name.

    Raises:
        ValueError: there is none, with the names that exist.
    """
    if name not in PRESETS:
        raise ValueError(f"expected PRESET to be one of {', '.join(PRESETS)}, or hub with make, got {name!r}")
    return PRESETS[name]
