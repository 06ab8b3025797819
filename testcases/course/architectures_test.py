"""Models of the Hub that look like what the trainer takes: they train, or one sentence says why not."""

import warnings

import pytest
import torch
import transformers
from peft import PrefixTuningConfig, get_peft_model

from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, SharedPolicyAndValue, ValueModel, make_reference
from solutions.lesson09_ppo_trainer import PPOConfig, PPOTrainer
from testcases.course import hub
from testcases.course.memory_test import TokenSum, small_policy
from testcases.harness.suite.asserts import named

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64}
TOKENS = {"vocab_size": 12, "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": 1}
LLAMA = SIZES | TOKENS | {"intermediate_size": 32, "num_key_value_heads": 1}


def gemma_with_pictures() -> transformers.PreTrainedConfig:
    eyes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return transformers.Gemma3Config(
        text_config=LLAMA | {"head_dim": 8},
        vision_config=eyes | {"image_size": 28, "patch_size": 14},
        image_token_index=11,
        boi_token_index=10,
        eoi_token_index=9,
    )


def opt_350m() -> transformers.PreTrainedConfig:
    """As `facebook/opt-350m`: wide hidden states, narrow embeddings."""
    narrow = {"word_embed_proj_dim": 8, "do_layer_norm_before": False, "ffn_dim": 32}
    return transformers.OPTConfig(**SIZES | TOKENS | narrow)


WIDTHS = {
    "reads-pictures": (gemma_with_pictures, transformers.Gemma3ForConditionalGeneration, transformers.Gemma3Model),
    "projects-its-states": (opt_350m, transformers.OPTForCausalLM, transformers.OPTModel),
}


@pytest.mark.parametrize("is_shared", [False, True], ids=["two-models", "one-backbone"])
@named("config, of_language, of_states", WIDTHS)
def test_a_head_has_the_width_of_the_models_last_states(config, of_language, of_states, is_shared):
    torch.manual_seed(0)
    policy, backbone = of_language(config()).eval(), of_states(config()).eval()
    model = SharedPolicyAndValue(policy) if is_shared else PolicyAndValue(policy, ValueModel(backbone))
    reward, reference = RewardModel(of_states(config()).eval()), make_reference(policy)
    settings = PPOConfig(stop_token_ids=(1,), pad_token_id=0, **hub.TINY | {"num_updates": 1})
    trainer = PPOTrainer(model, reward, reference, settings)
    (metrics,) = trainer.train([[5], [6, 7], [8]])
    assert metrics["first_ratio_max"] == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(ValueError, match=r"expected token ids in \[0, 12\), those of the policy, got 5 to 12"):
        trainer.training_step([[5], [12]])
    with pytest.raises(ValueError, match="fit the context of 64 tokens"):
        trainer.training_step([[5] * 64])


def mamba():
    return transformers.MambaForCausalLM(transformers.MambaConfig(**TOKENS, hidden_size=16, num_hidden_layers=1))


def t5():
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(**TOKENS, d_model=16, num_layers=1, num_heads=2, d_ff=32)
    )


def prefix_tuned():
    policy = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an older name
        return get_peft_model(policy, PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))


NO_POLICIES = {
    "another-state": (mamba, "expected the policy to have a key-value cache (past_key_values), got a MambaForCausalLM"),
    "encoder": (t5, "got a T5ForConditionalGeneration with an encoder for the prompt; load one with AutoModelFor"),
    "prefix-tuning": (prefix_tuned, "got prefix or prompt tuning, whose learned tokens"),
}


def refusal(**parts) -> str:
    policy = parts.pop("policy", None) or small_policy()
    config = PPOConfig(stop_token_ids=(1,), pad_token_id=0, **hub.TINY)
    model = PolicyAndValue(policy, ValueModel(small_policy(seed=2).base_model))
    own = {"reward_model": TokenSum(), "ref_model": small_policy(), "config": config}
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the caller reads the sentence
        PPOTrainer(model, **own | parts)
    return str(error.value)


@named("make, sentence", NO_POLICIES)
def test_a_policy_of_another_kind_is_refused_in_one_sentence(make, sentence):
    said = refusal(policy=make())
    assert sentence in said and "\n" not in said


def classifier(words: int) -> transformers.PreTrainedModel:
    torch.manual_seed(3)
    config = transformers.LlamaConfig(**LLAMA | {"vocab_size": words, "pad_token_id": None}, num_labels=1)
    return transformers.AutoModelForSequenceClassification.from_config(config)


@pytest.mark.parametrize("words", [8, 99])
def test_a_reward_model_of_another_vocabulary_is_refused_or_gets_the_texts(words):
    assert f"of the policy's 12 tokens, got one of {words}, which would read other words; text_reward(" in refusal(
        reward_model=classifier(words)
    )
    assert f"got one of {words}" in refusal(reward_model=RewardModel(classifier(words).base_model))


class FewTokens(torch.nn.Module):
    """A reward of somebody's own, without a `config` that says how many tokens it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.score = torch.nn.Embedding(4, 2), torch.nn.Linear(2, 1)

    def forward(self, input_ids, attention_mask):
        return self.score(self.table(input_ids).sum(dim=1)).squeeze(1)


def test_a_reward_module_of_ones_own_that_lacks_a_token_is_refused():
    policy, critic = small_policy(), ValueModel(small_policy(seed=2).base_model)
    config = PPOConfig(stop_token_ids=(1,), pad_token_id=0, **hub.TINY)
    trainer = PPOTrainer(PolicyAndValue(policy, critic), FewTokens(), make_reference(policy), config)
    with pytest.raises(ValueError, match="expected the reward model to know every token id .* from FewTokens; text_re"):
        trainer.training_step([[5], [6, 7], [8]])
