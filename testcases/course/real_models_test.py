"""The trainer's blocks on real Hugging Face models: absolute positions (GPT-2), rotary ones (Llama, Qwen), a sliding
window (Gemma), positions from the padding (RoBERTa). A padded batch gives what the library gives for one row alone."""

from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, PretrainedConfig

from solutions.lesson01_masked_sequences import gather_log_probs
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel
from solutions.lesson08_rollout import generate, generation
from solutions.lesson09_ppo_trainer import encode_prompts, make_scorer
from testcases.course import architectures
from testcases.course.architectures import PAD, STOP, VOCABULARY
from tiny_models.builders import build_causal_lm

PROMPTS = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15]]


@pytest.fixture(params=["gpt2", "llama"])
def policy(request: pytest.FixtureRequest):
    model = build_causal_lm(
        request.param, VOCABULARY, n_layer=2, n_embd=16, n_head=2, eos_token_id=STOP, pad_token_id=PAD, seed=1
    )
    return model.double()


def sample(policy, prompts, seed=0, pad=PAD, **settings):
    input_ids, attention_mask = encode_prompts(prompts, None, pad)
    generator = torch.Generator().manual_seed(seed)
    options = {"max_new_tokens": 9, "stop_token_ids": (STOP,), "pad_token_id": pad, "temperature": 0.7} | settings
    return input_ids, attention_mask, generate(policy, input_ids, attention_mask, generator=generator, **options)


class WithCache(torch.nn.Module):
    """A policy whose forward and output call the key-value cache `cache`, as all do from transformers 5.24 on."""

    def __init__(self, policy) -> None:
        super().__init__()
        self.policy, self.config = policy, policy.config

    def forward(self, input_ids, attention_mask, position_ids, cache=None, use_cache=None, logits_to_keep=0):
        name = generation.cache_name(self.policy)
        output = self.policy(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            **{name: cache},
        )
        return SimpleNamespace(logits=output.logits, cache=getattr(output, name))


def test_the_cache_goes_on_by_the_name_of_the_models_forward(policy) -> None:
    """`past_key_values` warns from transformers 5.24 on and ends in 5.40; a warning is an error here."""
    _, _, expected = sample(policy, PROMPTS)
    _, _, got = sample(WithCache(policy), PROMPTS)
    assert all(map(torch.equal, got, expected))


FAMILIES = ("gpt2", "llama", "qwen2", "gemma3")


def config_of(family: str, pad: int) -> PretrainedConfig:
    torch.manual_seed(3)
    options = {"is_decoder": False} if family == "roberta" else {}
    return architectures.config_of(family, pad_token_id=pad, num_labels=1, **options)


def padded(pad: int = PAD):
    """Texts as a rollout has them: prompts padded on the left, a response cut to one token padded on the right."""
    texts = [[5, 6, 7, 8, 9, 10, 11, STOP], [11, 12, STOP], [13, 14, 15, 16]]
    input_ids, attention_mask = encode_prompts([text[:-2] for text in texts], None, pad)
    ids = torch.cat([input_ids, torch.tensor([text[-2:] for text in texts])], dim=1)
    visible = torch.cat([attention_mask, torch.tensor([[True, True], [True, False], [True, True]])], dim=1)
    return ids.masked_fill(~visible, pad), visible, input_ids.shape[1]


@pytest.mark.parametrize("own_pad", [PAD, STOP, 22], ids=["its-own-pad", "pad-is-eos", "another-pad"])
@pytest.mark.parametrize("family", [*FAMILIES, "roberta"])
def test_a_hugging_face_classifier_scores_a_padded_row_as_it_scores_the_text_alone(family, own_pad) -> None:
    judge = AutoModelForSequenceClassification.from_config(config_of(family, own_pad)).double().eval()
    ids, visible, prompt_length = padded()
    scores = make_scorer(judge)(ids, visible, prompt_length)
    alone = [judge(input_ids=row[real].unsqueeze(0)).logits.item() for row, real in zip(ids, visible, strict=True)]
    assert scores.tolist() == pytest.approx(alone, abs=1e-6)
    assert max(alone) - min(alone) > 1e-3


@pytest.mark.parametrize("pad", [PAD, STOP], ids=["pad-is-not-eos", "pad-is-eos"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_model_of_a_run_reads_a_padded_row_as_the_library_reads_the_text_alone(family, pad) -> None:
    config = config_of(family, pad)
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


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_writes_beside_longer_ones_what_the_library_writes_alone(family) -> None:
    policy = AutoModelForCausalLM.from_config(config_of(family, STOP)).double().eval()
    _, _, (responses, _, mask) = sample(policy, PROMPTS, pad=STOP, top_k=1)
    for row, prompt in enumerate(PROMPTS):
        theirs = policy.generate(
            input_ids=torch.tensor([prompt]), max_new_tokens=9, do_sample=False, pad_token_id=STOP
        )[0, len(prompt) :]
        assert responses[row, mask[row]].tolist() == theirs.tolist()
