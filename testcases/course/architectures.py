"""Tiny models of the architectures that people train, with random weights: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers import AutoModel, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

VOCABULARY, STOP, PAD = 32, 2, 0
BASE = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": STOP, "pad_token_id": PAD}
OF_GPT2 = {**BASE, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}
PLAIN = {**BASE, **SIZES, "intermediate_size": 32}
GROUPED = {**PLAIN, "num_key_value_heads": 1}
HEADS = {**GROUPED, "head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
EYES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
EYES |= {"image_size": 28, "patch_size": 14}
LAST = {"eoi_token_index": 29, "tie_word_embeddings": True}

ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", OF_GPT2),
    "llama": ("LlamaConfig", GROUPED),
    "qwen2": ("Qwen2Config", GROUPED),
    "qwen3": ("Qwen3Config", HEADS),
    "mistral-sliding": ("MistralConfig", {**GROUPED, "sliding_window": 4}),
    "gemma2": (
        "Gemma2Config",
        {**HEADS, "sliding_window": 4, "final_logit_softcapping": 1.0, "attn_logit_softcapping": 5.0},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {**HEADS, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gemma3-with-pictures": (
        "Gemma3Config",
        {"text_config": HEADS, "vision_config": EYES, "image_token_index": 31, "boi_token_index": 30, **LAST},
    ),
    "phi3": ("Phi3Config", {**GROUPED, "resid_pdrop": 0.1}),
    # As opt-350m, wide hidden states and narrow embeddings.
    "opt": ("OPTConfig", {**BASE, **SIZES, "ffn_dim": 32, "word_embed_proj_dim": 8, "do_layer_norm_before": False}),
    "gpt-neox": ("GPTNeoXConfig", {**PLAIN, "hidden_dropout": 0.1, "attention_dropout": 0.1}),
    "bloom": ("BloomConfig", {**BASE, "hidden_size": 16, "n_layer": 2, "n_head": 2, "hidden_dropout": 0.1}),
    "falcon": ("FalconConfig", {**BASE, **SIZES, "hidden_dropout": 0.1, "attention_dropout": 0.1, "alibi": False}),
    "cohere": ("CohereConfig", {**GROUPED, "logit_scale": 0.0625}),
    "gpt-oss": ("GptOssConfig", {**HEADS, "num_local_experts": 4, "sliding_window": 4}),
    "deepseek-v3": (
        "DeepseekV3Config",
        {**PLAIN, **EXPERTS, **LATENT, "num_key_value_heads": 2, "first_k_dense_replace": 1},
    ),
    "lfm2": ("Lfm2Config", {**GROUPED, "layer_types": ["conv", "full_attention"]}),
    "bert": ("BertConfig", {**PLAIN, "is_decoder": True}),
    "roberta": ("RobertaConfig", {**PLAIN, "is_decoder": True}),
}
"""Name -> transformers' class of its configuration, and the arguments for that."""


def config_of(name: str, **settings: Any) -> PretrainedConfig:
    kind, given = ARCHITECTURES[name]
    config: PretrainedConfig = getattr(transformers, kind)(**given | settings)
    return config


def policy_of(name: str, scale: float | None = None, **settings: Any) -> PreTrainedModel:
    """A causal language model; weights as its library draws them, or large ones of standard deviation `scale`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config_of(name, **settings))
        for weight in model.parameters() if scale else ():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=scale)
    return model


def backbone_of(name: str, **settings: Any) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model: PreTrainedModel = AutoModel.from_config(config_of(name, **settings))
    return model
