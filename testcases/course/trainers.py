"""Small models and trainers for the tests: a run of them takes a second. Then tiny models of the architectures that
people train, with random weights: nothing is downloaded."""

from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference
from solutions.lesson08_rollout import Experience
from solutions.lesson09_ppo_trainer import PPOConfig, PPOTrainer
from tiny_models.builders import build_gpt2

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 5, 6], [4], [7, 7]]


def small_policy(seed: int = 1, words: int = 12) -> Any:
    return build_gpt2(words, n_layer=1, n_embd=16, n_head=2, eos_token_id=1, pad_token_id=0, seed=seed)


class TokenSum(torch.nn.Module):
    """A reward model that notices any token, and the mask."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return (input_ids * attention_mask).double().sum(dim=1) / 10


class Numbers:
    """A tokenizer whose words are the ids themselves."""

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return " ".join(map(str, ids))


def actor_and_critic(policy: Any) -> PolicyAndValue:
    """The critic starts as a copy of the policy, with a head that is the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PolicyAndValue(policy, ValueModel(make_reference(policy).base_model.requires_grad_(True)))


def small_trainer(
    kind: type[PPOTrainer] = PPOTrainer, parts: dict[str, Any] | None = None, words: int = 12, **settings: Any
) -> Any:
    """A trainer in float64; `parts` replace its own, by the names of the trainer's arguments."""
    policy = small_policy(words=words)
    own = {"model": actor_and_critic(policy).double(), "reward_model": TokenSum(), "ref_model": make_reference(policy)}
    options = {"num_updates": 2, "batch_size": 5, "max_new_tokens": 6, "num_minibatches": 2, "num_epochs": 2}
    config = PPOConfig(stop_token_ids=(1, 2), pad_token_id=0, **options | settings)
    return kind(**{**own, "config": config, **(parts or {})})


def rolled_out(trainer: PPOTrainer, prompts: list[Any]) -> Experience:
    """Responses to the prompts and their rewards."""
    return trainer.compute_rewards(trainer.generate_responses(prompts), prompts)


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
    "bloom": ("BloomConfig", {**BASE, "hidden_size": 16, "n_layer": 2, "n_head": 2, "hidden_dropout": 0.1}),
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
