"""One trainer, many architectures: what is sampled is what is trained, in train mode, whatever a model does inside."""

import random

import numpy
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers.pytorch_utils import Conv1D

from solutions.lesson07_actor_critic import PolicyAndValue, SharedPolicyAndValue, ValueModel, make_reference
from solutions.lesson09_ppo_trainer import PPOConfig, PPOTrainer
from testcases.course.architectures import ARCHITECTURES, PAD, STOP, VOCABULARY, backbone_of, policy_of

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 5, 6, 12, 13], [4]]
FIRST = ("gpt2", "llama", "gemma2", "opt", "bloom", "cohere", "bert")
"""Of each kind one, for every run of the tests."""
each_architecture = pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES]
)
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def length_and_tokens(input_ids, attention_mask):
    """A reward for the tests: any token counts."""
    return (input_ids * attention_mask).float().sum(dim=1) / 50


class Reward(torch.nn.Module):
    def forward(self, input_ids, attention_mask):
        return length_and_tokens(input_ids, attention_mask)


def trainer_of(name, shared=False, policy=None, **settings):
    policy = policy_of(name, scale=0.3) if policy is None else policy
    model = SharedPolicyAndValue(policy) if shared else PolicyAndValue(policy, ValueModel(backbone_of(name)))
    options = {"num_updates": 1, "batch_size": 8, "max_new_tokens": 8, "num_epochs": 1, "num_minibatches": 2}
    options |= {"learning_rate": 1e-3, "clip_score": None}
    config = PPOConfig(stop_token_ids=(STOP,), pad_token_id=PAD, **options | settings)
    return PPOTrainer(model, Reward(), make_reference(policy), config)


@each_architecture
@pytest.mark.parametrize("shared", [False, True], ids=["two-backbones", "shared-backbone"])
def test_what_is_sampled_is_what_is_trained(name, shared):
    (metrics,) = trainer_of(name, shared).train(PROMPTS)
    assert metrics["first_ratio_max"] == pytest.approx(1.0, abs=1e-3)
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-3)


@each_architecture
def test_the_values_of_a_shared_backbone_are_the_same_with_and_without_the_logits(name):
    model = SharedPolicyAndValue(policy_of(name, scale=0.3)).eval()
    torch.nn.init.normal_(model.value_head.weight, generator=torch.Generator().manual_seed(0))
    ids = torch.randint(3, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(1))
    visible = torch.arange(9) >= torch.tensor([[0], [2]])
    logits, values = model(ids, visible, 4)
    positions = (visible.long().cumsum(dim=1) - 1).clamp(min=0)
    own = model.policy(input_ids=ids, attention_mask=visible, position_ids=positions, use_cache=False).logits
    torch.testing.assert_close(logits, own[:, 3:-1], rtol=0, atol=1e-5)
    torch.testing.assert_close(values, model.response_values(ids, visible, 4), rtol=0, atol=1e-5)
    assert values.std() > 1e-3


def random_states():
    return torch.get_rng_state().tolist(), random.getstate(), str(numpy.random.get_state())


@each_architecture
def test_dropout_is_off_and_the_trainer_draws_no_random_number_to_know_it(name):
    trainer = trainer_of(name)
    before, sampling = random_states(), trainer.sampling.get_state().tolist()
    trainer.training_step(PROMPTS[:1] * 8)
    assert random_states() == before and trainer.sampling.get_state().tolist() != sampling
    model = trainer.model
    assert all(module.training for module in model.modules())
    ids = torch.randint(3, VOCABULARY, (4, 12), generator=torch.Generator().manual_seed(1))
    first, second = (model(ids, torch.ones_like(ids), 4) for _ in range(2))
    assert torch.equal(first.logits, second.logits) and torch.equal(first.values, second.values)


class Noise(torch.nn.Module):
    """Dropout under another name."""

    def forward(self, hidden):
        return torch.nn.functional.dropout(hidden, 0.1, self.training)


def noisy_activation(policy):
    policy.model.layers[1].mlp.act_fn = Noise()


def noise_of_python(policy):
    """A layer is left out by chance, as LayerDrop does it. Two draws may lie close together: these two don't."""
    random.seed(0)
    attention = policy.model.layers[1].self_attn
    plain = attention.forward
    attention.forward = lambda **named: (plain(**named)[0] * random.random(), None)


@pytest.mark.parametrize("spoil", [noisy_activation, noise_of_python])
def test_a_model_that_stays_random_in_train_mode_is_refused(spoil):
    policy = policy_of("llama")
    spoil(policy)
    model = PolicyAndValue(policy, ValueModel(backbone_of("llama")))
    config, reference = PPOConfig(stop_token_ids=(STOP,), pad_token_id=PAD), make_reference(policy)
    before = random_states()
    with pytest.raises(ValueError, match="expected the same numbers from two passes of the models in train mode"):
        PPOTrainer(model, Reward(), reference, config)
    assert random_states() == before


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt"])
def test_gradient_checkpointing_of_a_model_as_it_is_loaded_acts(name):
    """from_pretrained gives eval mode, in which no Hugging Face model checkpoints anything."""
    calls = {}
    for checkpointing in (False, True):
        policy = policy_of(name).eval()
        if checkpointing:
            policy.gradient_checkpointing_enable({"use_reentrant": False})
        trainer = trainer_of(name, policy=policy)
        (first,) = (module[0] for key, module in policy.named_modules() if key.endswith((".layers", ".h")))
        part = next(module for module in first.modules() if isinstance(module, torch.nn.Linear | Conv1D))
        calls[checkpointing] = 0

        def count(*given, checkpointing=checkpointing):
            calls[checkpointing] += torch.is_grad_enabled()

        part.register_forward_hook(count)
        trainer.train(PROMPTS)
    assert calls[True] == 2 * calls[False] > 0


SIXTEEN_BITS = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


@SIXTEEN_BITS
@pytest.mark.parametrize("part", ["policy", "critic", "shared"])
def test_weights_that_are_trained_in_16_bits_are_refused_with_what_to_do(part, dtype):
    policy, critic = policy_of("llama"), ValueModel(backbone_of("llama"))
    (critic if part == "critic" else policy).to(dtype)
    model = SharedPolicyAndValue(policy) if part == "shared" else PolicyAndValue(policy, critic)
    config = PPOConfig(stop_token_ids=(STOP,), pad_token_id=PAD)
    sentence = f"expected the weights that are trained in float32, got {dtype}.*--mixed_precision bf16.*LoRA"
    with pytest.raises(ValueError, match=sentence):
        PPOTrainer(model, Reward(), make_reference(policy_of("llama")), config)


def test_adapters_on_16_bits_and_the_heads_are_trained_in_float32_and_move():
    """Of LoRA the adapters and the critic's head learn; the weights below are frozen, as a reference is."""
    adapted = [model_of("llama").to(torch.bfloat16) for model_of in (policy_of, backbone_of)]
    policy, backbone = (get_peft_model(one, LoraConfig(r=2, target_modules="all-linear")) for one in adapted)
    model = PolicyAndValue(policy, ValueModel(backbone))
    config = PPOConfig(
        stop_token_ids=(STOP,), pad_token_id=PAD, num_updates=2, batch_size=8, max_new_tokens=8, learning_rate=1e-5
    )
    trainer = PPOTrainer(model, Reward(), None, config)
    trained = {name: weight for name, weight in trainer.model.named_parameters() if weight.requires_grad}
    before = {name: weight.detach().clone() for name, weight in trained.items()}
    trainer.train(PROMPTS)
    assert {weight.dtype for weight in trained.values()} == {torch.float32}
    moved = sum(int((weight != before[name]).sum()) for name, weight in trained.items())
    assert moved > 0.8 * sum(weight.numel() for weight in trained.values())
