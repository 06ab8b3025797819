"""What a user gets wrong, one row each: a sentence that says what was expected, what came, and what to do."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from transformers import GPT2ForSequenceClassification

from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.texts import make_scorer, read_prompts
from ppo_by_hand.hub.models import load_policy
from ppo_by_hand.hub.rewards import load_reward, text_reward
from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel, freeze
from solutions.lesson08_rollout import Generation
from solutions.lesson09_ppo_trainer import CheckpointFolder, PPOTrainer
from solutions.lesson11_scaling import DistributedPPOTrainer
from testcases.course import hub
from testcases.course.trainers import PROMPTS, config_of, small_policy, small_trainer
from testcases.harness.suite.asserts import named

TOKENS = {"stop_token_ids": (1,), "pad_token_id": 0}
ERRORS = (ValueError, TypeError, OSError, RuntimeError)


def refused(call, sentence: str) -> None:
    """The call ends with this sentence: short, and beginning with what would have been right."""
    with pytest.raises(ERRORS) as error:
        call()
    said = str(error.value)
    assert sentence in said
    assert "\n" not in said and len(said) < 500 and "expected " in said


SETTINGS = {
    "fraction-of-a-count": ({"batch_size": 2.5}, "expected batch_size to be int, got 2.5"),
    "true-for-a-number": ({"micro_batch_size": True}, "expected micro_batch_size to be int | None, got True"),
    "one-stop-token": ({"stop_token_ids": 1}, "expected stop_token_ids to be tuple[int, ...], got 1"),
    "no-stop-token": ({"stop_token_ids": ()}, "got none; no response could end"),
    "no-pad-token": ({"pad_token_id": None}, "got None; take a stop token if the tokenizer has none"),
    "more-minibatches-than-rows": ({"num_minibatches": 65}, "lower num_minibatches or raise batch_size"),
    "temperature-0": ({"temperature": 0.0}, "expected temperature in (0.0, infinity), got 0.0"),
    "unknown-estimator": ({"kl_estimator": "k4"}, "expected kl_estimator to be one of k1, k2, k3, got 'k4'"),
    "groups-that-do-not-divide": ({"samples_per_prompt": 5}, "batch_size counts the responses"),
}


@named("settings, sentence", SETTINGS)
def test_a_wrong_setting_is_one_sentence(settings, sentence):
    refused(lambda: PPOConfig(**TOKENS | settings), sentence)


def spoiled(model):
    next(model.parameters()).data[0, 0] = float("nan")
    return model


def no_words(prompts, responses):
    return [0.0] * len(responses)


def with_policy(trainer, policy):
    return {"model": PolicyAndValue(policy, trainer.model.value_model)}


def with_critic(trainer, backbone):
    return {"model": PolicyAndValue(trainer.policy, ValueModel(backbone))}


def t5():
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=12, d_model=16, num_layers=1, num_heads=2, d_ff=32)
    )


def judge(words: int):
    return GPT2ForSequenceClassification(config_of("gpt2", vocab_size=words, num_labels=1))


def padless(model):
    model.config.pad_token_id = None
    return model


PARTS = {
    "policy-alone": (lambda t: {"model": t.policy}, "expected model to be actor and critic"),
    "critic-with-a-head": (
        lambda t: with_critic(t, small_policy()),
        "expected ValueModel to be made of a backbone, which has no head, got one of a GPT2LMHeadModel; load",
    ),
    "policy-of-a-backbone": (
        lambda t: with_policy(t, small_policy().base_model),
        "expected the policy to be a causal language model without an encoder and with a key-value cache "
        "(past_key_values), got a GPT2Model; load",
    ),
    "policy-with-an-encoder": (lambda t: with_policy(t, t5()), "got a T5ForConditionalGeneration; load one such"),
    "weights-that-are-nan": (lambda t: {"model": spoiled(t.model)}, "expected weights that are finite numbers"),
    "policy-in-16-bits": (
        lambda t: with_policy(t, small_policy().bfloat16()),
        "expected the weights that are trained in float32, got torch.bfloat16, in which most steps are too small",
    ),
    "backbone-of-both": (
        lambda t: with_critic(t, t.policy.base_model),
        "expected the critic to share no weight with the policy, got some",
    ),
    "frozen-policy": (lambda t: with_policy(t, freeze(t.policy)), "or load its adapter with is_trainable=True"),
    "reference-by-name": (lambda t: {"ref_model": "gpt2"}, "make_reference(policy), or None with LoRA, got 'gpt2'"),
    "backbone-as-reference": (
        lambda t: {"ref_model": small_policy().base_model},
        "expected ref_model to be a causal language model without an encoder and with a key-value cache",
    ),
    "policy-as-reference": (lambda t: {"ref_model": t.policy}, "expected ref_model to have weights of its own"),
    "reference-of-fewer-tokens": (lambda t: {"ref_model": small_policy(words=11)}, "policy's 12 tokens, got 11, so it"),
    "critic-of-fewer-tokens": (
        lambda t: with_critic(t, small_policy(words=11).base_model),
        "expected the critic to have the policy's 12 tokens, got 11",
    ),
    "settings-as-a-dict": (lambda t: {"config": {"seed": 0}}, "a PPOConfig of ppo_by_hand, got {'seed': 0}"),
    "unknown-pad-token": (
        lambda t: {"config": replace(t.config, pad_token_id=12)},
        "expected pad_token_id to be one of the policy's 12 tokens, got 12",
    ),
    "no-reward": (lambda t: {"reward_model": None}, "a function of (prompts, responses), got None"),
    "reward-model-of-more-tokens": (lambda t: {"reward_model": judge(99)}, "got 99, so it would read other words"),
    "classifier-without-a-pad-token": (
        lambda t: {"reward_model": padless(judge(12))},
        "got a GPT2ForSequenceClassification with none; set its config.pad_token_id",
    ),
    "texts-without-tokenizer": (lambda t: {"reward_model": no_words}, "pass tokenizer= to PPOTrainer"),
}


@named("change, sentence", PARTS)
def test_a_wrong_part_is_one_sentence(change, sentence):
    plain = small_trainer()
    parts = {"model": plain.model, "ref_model": plain.ref_model, **change(plain)}
    for kind in (PPOTrainer, DistributedPPOTrainer):
        refused(lambda kind=kind: small_trainer(kind, parts), sentence)


def masked(ids, mask):
    return [{"input_ids": ids, "attention_mask": mask}] * 5


PROMPT_LISTS = {
    "one-text": ("the cat", "got a str in the place of the list; put one prompt into a list"),
    "generator": ((row for row in PROMPTS), "got a generator in the place of the list"),
    "rows-without-a-tokenizer": ([{"prompt": "a"}] * 5, "got a text and no tokenizer"),
    "rows-without-a-prompt": ([{"input_ids": [5.5]}] * 5, "got {'input_ids': [5.5]} as prompt 0"),
    "mask-with-a-gap": (masked([5, 0, 6], [1, 0, 1]), "} as prompt 0 with [1, 0, 1]"),
    "mask-of-another-length": (masked([5, 6], [1]), "a 0 or 1 for each of the 2 input_ids, and no 0"),
    "no-prompt": ([], "expected at least one prompt, got an empty list"),
    "empty-prompt": ([[5], [], [6], [7], [8]], "expected words or tokens in each prompt, got [] as prompt 1"),
    "unknown-token": ([[5, 12]], "token ids in [0, 12), those of the policy, got 5 to 12 in the prompts; encode"),
    "longer-than-the-context": ([[5] * 2000], "shorten the prompts or lower max_new_tokens"),
}


@named("prompts, sentence", PROMPT_LISTS)
def test_wrong_prompts_are_one_sentence(prompts, sentence):
    refused(lambda: small_trainer().train(prompts), sentence)


def all_of(kind: torch.dtype, value: float = 1.0, rows: int = 5) -> torch.Tensor:
    return torch.full((rows, 3), value).to(kind)


SAMPLES = {
    "gap": ({"mask": torch.tensor([[True, False, True]] * 5)}, "a real token after a masked one"),
    "mask-of-numbers": ({"mask": all_of(torch.float32)}, "expected a bool mask"),
    "nan": ({"log_probs": all_of(torch.float32, torch.nan)}, "expected finite log-probabilities from the sampler"),
    "too-few-rows": ({"responses": all_of(torch.int64, rows=4)}, "each letter one size"),
    "no-whole-numbers": ({"responses": all_of(torch.float32)}, "expected token ids (int64) as responses from the samp"),
    "lists": ({"responses": [[5]] * 5}, "three tensors, got (list, Tensor, Tensor); make one of lists with Generation"),
    "unknown-token": (
        {"responses": all_of(torch.int64, 12)},
        "expected token ids in [0, 12), those of the policy, from",
    ),
    "after-the-end": ({}, "expected nothing after a stop token of the run (1, 2)"),
}


@named("change, sentence", SAMPLES)
def test_a_sampler_that_answers_otherwise_is_one_sentence(change, sentence):
    good = Generation(all_of(torch.int64), -all_of(torch.float32), all_of(torch.bool))
    trainer = small_trainer(parts={"sampler": lambda *prompts, **options: good._replace(**change)})
    refused(lambda: trainer.generate_responses(PROMPTS), sentence)


SAMPLER = "expected a sampler of (policy, input_ids, attention_mask, max_new_tokens, stop_token_ids, pad_token_id, temp"


def test_what_a_run_would_call_only_later_is_refused_before_it():
    trainer = small_trainer()
    needs = {"reward_model": lambda prompts, responses, answer: answer, "tokenizer": hub.tokenizer()}
    sentence = "expected each prompt to have the column 'answer', which the reward function"
    refused(lambda: small_trainer(parts=needs).train(PROMPTS), sentence)
    blank = small_trainer(parts={"tokenizer": hub.tokenizer()})
    refused(lambda: blank.train(["the cat", " "]), "expected words or tokens in each prompt, got ' ' as prompt 1")
    refused(lambda: trainer.train([*PROMPTS * 40, [5] * 2000]), "got 2000 + 6 for '[5, 5")
    assert trainer.updates_done == blank.updates_done == 0
    sampler = {"sampler": lambda *given, **more: given[0].x}
    refused(lambda: small_trainer(parts=sampler).train(PROMPTS), SAMPLER)


class Answering(torch.nn.Module):
    """A reward model that gives this, whatever it reads."""

    def __init__(self, answer) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, input_ids, attention_mask):
        return self.answer


REWARDS = {
    "too-few": (lambda *_: [1.0], "to return one number for each of 2 responses, got 1"),
    "nothing": (lambda *_: None, "to return one number for each of 2 responses, got None"),
    "no-number": (lambda *_: ["1", "bad"], "to return finite numbers, got '1' for response 0"),
    "not-finite": (lambda *_: [0.0, float("inf")], "to return finite numbers, got inf for response 1"),
    "model-of-lists": (Answering([1.0]), "return scores (B,), or logits (B, 1), got a list"),
    "model-of-two-labels": (
        Answering(SimpleNamespace(logits=torch.zeros(2, 2))),
        "return scores (B,), or logits (B, 1), got (2, 2)",
    ),
}


@named("reward, sentence", REWARDS)
def test_a_wrong_answer_of_a_reward_is_one_sentence(reward, sentence):
    ids = torch.full((2, 3), 9)
    refused(lambda: make_scorer(reward, hub.tokenizer())(ids, ids == 9, 1), sentence)


OTHERS = {
    "no-response": (
        lambda path: Generation.from_lists([], None, 0),
        "expected a token in each response, got lengths []; ask for at least one",
    ),
    "an-empty-response": (lambda path: Generation.from_lists([[7], []], None, 0), "got lengths [1, 0]; ask"),
    "too-few-log-probs": (
        lambda path: Generation.from_lists([[7, 1]], [[-1.0]], 0),
        "expected a log-probability for each token, got [1] for responses of [2] tokens",
    ),
    "no-file": (lambda path: read_prompts(path / "none.txt"), "expected PROMPTS to be a text or JSONL file"),
    "a-table": (lambda path: read_prompts(path / "a.csv"), "a.csv; rename JSON lines to .jsonl, one prompt a line to"),
    "no-lines": (lambda path: read_prompts(wrote(path, "a.txt", "\n\n")), "got none; write one a line"),
    "no-adapter": (
        lambda path: load_policy(str(wrote(path, "adapter_config.json", "{}").parent), print),
        "call merge_and_unload and save it again",
    ),
    "no-module": (lambda path: load_reward("nothing:here", None, 0, print), "looked for in the working directory"),
    "no-function": (lambda path: load_reward("math:pi", None, 0, print), "to be a function, got math:pi, a float"),
    "tokenizer-of-another-judge": (
        lambda path: text_reward(judge(12), hub.tokenizer()),
        "expected the tokenizer of GPT2ForSequenceClassification to have at most the 12 tokens of its model, got 35",
    ),
    "checkpoints-in-a-file": (
        lambda path: small_trainer().train(PROMPTS, CheckpointFolder(wrote(path, "a.txt", "a"), every=1).save),
        "a.txt, got: FileExistsError",
    ),
    "no-checkpoint": (lambda path: small_trainer().load_checkpoint(path), "got no trainer.pt in"),
}


def wrote(path: Path, name: str, content: str) -> Path:
    (path / name).write_text(content, "utf-8")
    return path / name


@named("call, sentence", OTHERS)
def test_another_wrong_input_is_one_sentence(call, sentence, tmp_path):
    refused(lambda: call(tmp_path), sentence)
