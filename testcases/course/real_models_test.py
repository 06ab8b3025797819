"""The trainer and its blocks on the architectures that people train: a padded batch gives what the library gives for
one row alone, and what is sampled is what is trained, in train mode, whatever a model does inside."""

import math
import random
from types import SimpleNamespace

import numpy
import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, PretrainedConfig

from solutions.lesson01_masked_sequences import gather_log_probs
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, SharedPolicyAndValue, ValueModel, make_reference
from solutions.lesson08_rollout import generate, generation
from solutions.lesson09_ppo_trainer import PPOTrainer, encode_prompts, make_scorer
from testcases.course import trainers
from testcases.course.trainers import ARCHITECTURES, PAD, STOP, TokenSum, backbone_of, policy_of, rolled_out

PROMPTS = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15]]
FIRST = ("gpt2", "llama", "gemma2", "gemma3-with-pictures", "opt", "bloom", "cohere", "bert")
"""Of each kind one, for every run of the tests."""
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def trainer_of(name, shared=False, **settings):
    policy = policy_of(name, scale=0.3).eval()  # as from_pretrained gives it
    model = SharedPolicyAndValue(policy) if shared else PolicyAndValue(policy, ValueModel(backbone_of(name)))
    options = {"num_updates": 1, "batch_size": 8, "max_new_tokens": 8, "num_epochs": 1, "num_minibatches": 2}
    options |= {"learning_rate": 1e-3, "clip_score": None}
    return trainers.small_trainer(parts={"model": model, "ref_model": make_reference(policy)}, **options | settings)


def random_states():
    return torch.get_rng_state().tolist(), random.getstate(), str(numpy.random.get_state())


@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES]
)
@pytest.mark.parametrize("shared", [False, True], ids=["two-backbones", "shared-backbone"])
def test_what_is_sampled_is_what_is_trained(name, shared):
    """So dropout is off, and both read the same logits and values, which a rollout makes in another way; and nothing
    but the run's own generators is drawn from."""
    trainer = trainer_of(name, shared)
    if shared:
        torch.nn.init.normal_(trainer.model.value_head.weight)
    before = random_states()
    rollout = rolled_out(trainer, PROMPTS)
    values = trainer.model(rollout.input_ids, rollout.attention_mask, rollout.prompt_length).values
    torch.testing.assert_close(values[rollout.mask], rollout.values[rollout.mask], rtol=0, atol=1e-4)
    assert rollout.values.std() > 1e-3
    (metrics,) = trainer.train(PROMPTS)
    assert metrics["first_ratio_max"] == pytest.approx(1.0, abs=1e-3)
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-3)
    assert all(module.training for module in trainer.model.modules()) and random_states() == before


def test_a_model_whose_sizes_stand_in_a_configuration_of_its_texts_refuses_what_it_cannot_read():
    trainer = trainer_of("gemma3-with-pictures")
    for prompts, sentence in (([[5], [32]], r"token ids in \[0, 32\)"), ([[5] * 64], "context of 64 tokens")):
        with pytest.raises(ValueError, match=sentence):
            trainer.training_step(prompts)


class Noise(torch.nn.Module):
    """Dropout under another name."""

    def forward(self, hidden):
        return torch.nn.functional.dropout(hidden, 0.1, self.training)


def test_a_model_that_stays_random_in_train_mode_is_refused():
    made = trainer_of("llama")
    made.policy.model.layers[1].mlp.act_fn = Noise()
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match="expected the same numbers from two passes of the models in train mode"):
        PPOTrainer(made.model, TokenSum(), made.ref_model, made.config)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_that_forbids_a_token_by_an_infinite_logit_is_not_taken_for_a_random_one():
    made = trainer_of("llama")
    made.policy.lm_head.register_forward_hook(lambda *given: given[-1].index_fill(-1, torch.tensor([3]), -torch.inf))
    (metrics,) = PPOTrainer(made.model, TokenSum(), made.ref_model, made.config).train(PROMPTS)
    assert all(map(math.isfinite, metrics.values()))


def sample(policy, pad=PAD, **settings):
    input_ids, attention_mask = encode_prompts(PROMPTS, None, pad)
    return generate(policy, input_ids, attention_mask, 9, (STOP,), pad, generator=torch.manual_seed(0), **settings)


class WithCache(torch.nn.Module):
    """A policy whose forward and output call the key-value cache `cache`, as all do from transformers 5.24 on."""

    def __init__(self, policy) -> None:
        super().__init__()
        self.policy, self.config = policy, policy.config

    def forward(self, input_ids, attention_mask, position_ids, cache=None, **more):
        name = generation.cache_name(self.policy)
        output = self.policy(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **more, **{name: cache}
        )
        return SimpleNamespace(logits=output.logits, cache=getattr(output, name))


def test_the_cache_goes_on_by_the_name_of_the_models_forward():
    """`past_key_values` warns from transformers 5.24 on and ends in 5.40; a warning is an error here."""
    policy = policy_of("llama", scale=0.3)
    assert all(map(torch.equal, sample(WithCache(policy)), sample(policy)))


FAMILIES = ("gpt2", "llama", "qwen2", "gemma3")


def judge_config(family: str, pad: int) -> PretrainedConfig:
    torch.manual_seed(3)
    options = {"is_decoder": False} if family == "roberta" else {}
    return trainers.config_of(family, pad_token_id=pad, num_labels=1, **options)


def padded(pad: int = PAD):
    """Texts as a rollout has them: prompts padded on the left, a response cut to one token padded on the right."""
    texts = [[5, 6, 7, 8, 9, 10, 11, STOP], [11, 12, STOP], [13, 14, 15, 16]]
    input_ids, attention_mask = encode_prompts([text[:-2] for text in texts], None, pad)
    ids = torch.cat([input_ids, torch.tensor([text[-2:] for text in texts])], dim=1)
    visible = torch.cat([attention_mask, torch.tensor([[True, True], [True, False], [True, True]])], dim=1)
    return ids.masked_fill(~visible, pad), visible, input_ids.shape[1]


@pytest.mark.parametrize("own_pad", [PAD, STOP, 22], ids=["its-own-pad", "pad-is-eos", "another-pad"])
@pytest.mark.parametrize("family", [*FAMILIES, "roberta"])
def test_a_hugging_face_classifier_scores_a_padded_row_as_it_scores_the_text_alone(family, own_pad):
    judge = AutoModelForSequenceClassification.from_config(judge_config(family, own_pad)).double().eval()
    ids, visible, prompt_length = padded()
    scores = make_scorer(judge)(ids, visible, prompt_length)
    alone = [judge(input_ids=row[real].unsqueeze(0)).logits.item() for row, real in zip(ids, visible, strict=True)]
    assert scores.tolist() == pytest.approx(alone, abs=1e-6)
    assert max(alone) - min(alone) > 1e-3


@pytest.mark.parametrize("pad", [PAD, STOP], ids=["pad-is-not-eos", "pad-is-eos"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_model_of_a_run_reads_a_padded_row_as_the_library_reads_the_text_alone(family, pad):
    config = judge_config(family, pad)
    policy = AutoModelForCausalLM.from_config(config).double().eval()
    critic, judge = ValueModel(AutoModel.from_config(config)), RewardModel(AutoModel.from_config(config))
    model = PolicyAndValue(policy, critic).double().eval()
    judge.double().eval()
    ids, visible, prompt_length = padded(pad)
    logits, values = model(ids, visible, prompt_length)
    log_probs, scores = gather_log_probs(logits, ids[:, prompt_length:]), judge(ids, visible)
    for row, real in enumerate(visible):
        text, count = ids[row : row + 1, real], int(real[prompt_length:].sum())
        theirs = policy(input_ids=text).logits.log_softmax(-1)[:, :-1].gather(-1, text[:, 1:, None])[0, :, 0]
        hidden = critic.backbone(input_ids=text).last_hidden_state[0]
        last = judge.backbone(input_ids=text).last_hidden_state[0, -1]
        torch.testing.assert_close(log_probs[row, :count], theirs[-count:], rtol=0, atol=1e-9)
        torch.testing.assert_close(values[row, :count], critic.head(hidden)[-count - 1 : -1, 0], rtol=0, atol=1e-9)
        torch.testing.assert_close(scores[row], judge.head(last)[0], rtol=0, atol=1e-9)
