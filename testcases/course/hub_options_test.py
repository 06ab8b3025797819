"""The options of the preset `hub`: precision, LoRA, the critic's start, columns, long prompts, stop tokens, resume."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from ppo_by_hand.core.rows import Encoded
from ppo_by_hand.hub import models as hub_models
from ppo_by_hand.hub import prompts as hub_prompts
from ppo_by_hand.hub.options import HubOptions, parse_settings, split_settings
from solutions.demo import hub_actor_critic
from testcases.course import hub as here
from testcases.course.hub import CALLS, SET, causal, classifier, run, save, tokenizer

SETTINGS = f"{SET} learning_rate=0.01"


@pytest.fixture(autouse=True)
def on_its_own():
    CALLS.clear()


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> str:
    return causal(tmp_path_factory.mktemp("models") / "gpt2")


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> str:
    return causal(tmp_path_factory.mktemp("models") / "llama", "llama")


def in_bfloat16(source: str, folder) -> str:
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    return save(folder, model, AutoTokenizer.from_pretrained(source))


def logged(tmp_path) -> list[dict]:
    return [json.loads(line) for line in (tmp_path / "out" / "log" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("options", [" dtype=bfloat16", " dtype=auto frozen_dtype=bfloat16"])
def test_all_weights_in_16_bits_are_refused_before_anything_is_written(options, llama, tmp_path, capsys):
    source = in_bfloat16(llama, tmp_path / "model")
    assert run(tmp_path, source, more=("--set", SETTINGS + options)) == 1
    said = capsys.readouterr().err
    assert "error: expected the weights that are trained in float32, got torch.bfloat16" in said
    assert "accelerate launch --mixed_precision bf16" in said and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options", ["", " frozen_dtype=bfloat16", " lora_rank=2 dtype=auto", " lora_rank=2 dtype=bfloat16"]
)
def test_a_policy_is_saved_in_the_dtype_that_it_came_in(options, llama, tmp_path):
    source = in_bfloat16(llama, tmp_path / "model")
    assert run(tmp_path, source, more=("--set", SETTINGS + options)) == 0
    tuned = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "policy", dtype="auto")
    assert {weight.dtype for weight in tuned.parameters()} == {torch.bfloat16}
    before = AutoModelForCausalLM.from_pretrained(source, dtype="auto")
    assert any(not torch.equal(one, two) for one, two in zip(before.parameters(), tuned.parameters(), strict=True))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_lora_policy_is_saved_whole_and_is_its_own_reference(family, tmp_path, request):
    source = request.getfixturevalue(family)
    options = " lora_rank=2 gradient_checkpointing=true frozen_dtype=bfloat16"
    assert run(tmp_path, source, more=("--set", SETTINGS + options)) == 0
    before, tuned = (AutoModelForCausalLM.from_pretrained(one) for one in (source, tmp_path / "out" / "policy"))
    moved = {
        name
        for (name, one), two in zip(before.named_parameters(), tuned.parameters(), strict=True)
        if not torch.allclose(one, two, atol=1e-6)
    }
    assert moved and not any("norm" in name or "wte" in name or "embed" in name for name in moved)
    assert abs(logged(tmp_path)[0]["kl"]) < 1e-5 < abs(logged(tmp_path)[1]["kl"])


def test_adapters_and_checkpointing_leave_the_answers_as_they_were(llama):
    model = AutoModelForCausalLM.from_pretrained(llama)
    ids = torch.tensor([[6, 7, 8, 9]])
    expected = model(ids).logits
    options = HubOptions(lora_rank=2, lora_targets="q_proj,v_proj", gradient_checkpointing=True)
    made, reference = hub_actor_critic.make_models(model, None, options)
    assert reference is None and made.training
    assert torch.equal(made.policy(ids).logits, expected)
    trained = {name.split(".")[-4] for name, weight in made.policy.named_parameters() if weight.requires_grad}
    assert trained == {"q_proj", "v_proj"}
    assert made.value_model.head.weight.requires_grad


def test_a_critic_that_starts_from_the_reward_model_gives_its_scores(tmp_path, llama):
    words = tokenizer()
    source = classifier(tmp_path / "rm", words, "llama")
    reward = AutoModelForSequenceClassification.from_pretrained(source).eval()
    policy = AutoModelForCausalLM.from_pretrained(llama)
    critic = hub_actor_critic.make_critic(policy, reward).eval()
    ids = words("the cat", return_tensors="pt").input_ids
    value = critic(ids, torch.ones_like(ids, dtype=torch.bool))[0, -1]
    torch.testing.assert_close(value, reward(ids).logits[0, 0], rtol=0, atol=1e-6)
    for number, value in enumerate(("reward", source)):
        assert run(tmp_path, llama, source, more=("--value", value, "--out", str(tmp_path / str(number)))) == 0


def test_the_critic_cannot_start_from_a_function(tmp_path, llama, capsys):
    assert run(tmp_path, llama, more=("--value", "reward")) == 1
    assert "expected VALUE to be a reward model of the policy's tokenizer, got reward" in capsys.readouterr().err


def with_answer(prompts, responses, answer, weight=None, style="plain"):
    CALLS.append((prompts, answer, weight, style))
    return [float(response.count(one)) for response, one in zip(responses, answer, strict=True)]


def with_all(prompts, responses, **columns):
    CALLS.append((prompts, columns))
    return [0.0] * len(responses)


ROWS = ('{"prompt": "the cat", "answer": "a", "weight": 2}', '{"prompt": "a dog", "answer": "b", "weight": 3}')


def test_a_reward_function_gets_the_columns_that_it_names(tmp_path, gpt2, monkeypatch):
    monkeypatch.setattr(here, "with_answer", with_answer, raising=False)
    monkeypatch.setattr(here, "with_all", with_all, raising=False)
    assert run(tmp_path, gpt2, "with_answer", lines=ROWS, name="p.jsonl") == 0
    rows = {row for prompts, answer, weight, _ in CALLS for row in zip(prompts, answer, weight, strict=True)}
    assert rows == {("the cat", "a", 2), ("a dog", "b", 3)} and {call[3] for call in CALLS} == {"plain"}
    CALLS.clear()
    assert run(tmp_path, gpt2, "with_all", lines=ROWS, name="p.jsonl", more=("--out", str(tmp_path / "all"))) == 0
    assert {name for _, columns in CALLS for name in columns} == {"answer", "weight"}


def test_a_column_that_is_not_there_is_one_sentence(tmp_path, gpt2, monkeypatch, capsys):
    monkeypatch.setattr(here, "with_answer", with_answer, raising=False)
    assert run(tmp_path, gpt2, "with_answer", lines=ROWS + ('{"prompt": "b"}',), name="p.jsonl") == 1
    said = capsys.readouterr().err
    assert "to have the column 'answer', which the reward function with_answer takes" in said and said.count("\n") == 1


def test_equal_prompts_of_the_file_keep_the_columns_of_their_lines(tmp_path, gpt2, monkeypatch):
    monkeypatch.setattr(here, "with_answer", with_answer, raising=False)
    lines = ROWS + ('{"prompt": "a dog", "answer": "c", "weight": 4}', '{"prompt": "<|user|>a dog", "answer": "d"}')
    assert run(tmp_path, gpt2, "with_answer", lines=lines, name="p.jsonl") == 0
    rows = {row for prompts, answer, weight, _ in CALLS for row in zip(prompts, answer, weight, strict=True)}
    alike = {("a dog", "b", 3), ("a dog", "c", 4), ("<|user|>a dog", "d", None)}
    assert rows == {("the cat", "a", 2)} | alike


LONG = ("a", "a" * 61, "b" * 62)


@pytest.mark.parametrize("how, left", [("drop", {"a"}), ("truncate", {"a", "a" * 61, "b" * 62})])
def test_long_prompts_are_dropped_or_truncated_and_counted(how, left, tmp_path, gpt2, capsys):
    assert run(tmp_path, gpt2, lines=LONG, more=("--set", f"{SET} long_prompts={how} num_updates=3")) == 0
    assert "2 of 3 prompts are longer than 60 tokens" in capsys.readouterr().out
    assert {prompt for prompts, _ in CALLS for prompt in prompts} == left, "a reward gets the prompt as it was written"


def test_a_truncated_prompt_keeps_its_last_tokens():
    said: list[str] = []
    prompts = [Encoded([1, 2, 3], "abc", {"answer": 1}), Encoded([4], "d", {})]
    (cut, short), (kept,) = (hub_prompts.fit_prompts(prompts, 2, how, said.append) for how in ("truncate", "drop"))
    assert (cut, cut.text, cut.columns) == ([2, 3], "abc", {"answer": 1})
    assert kept is prompts[1] and (short, short.text) == ([4], "d")
    assert hub_prompts.fit_prompts(prompts, 3, "refuse", said.append) == prompts


def test_stop_tokens_are_named_or_numbered():
    words = tokenizer()
    assert hub_models.named_tokens("<|user|>,1,.", words) == tuple(sorted({2, 1, words.get_vocab()["."]}))
    assert hub_models.named_tokens("", words) == ()


def test_a_score_is_not_clipped_unless_asked_and_a_clip_is_said(tmp_path, gpt2, monkeypatch, capsys):
    monkeypatch.setattr(here, "large", lambda prompts, responses: [2550.0] * len(responses), raising=False)
    assert run(tmp_path, gpt2, "large") == 0
    assert {line["score_clip_fraction"] for line in logged(tmp_path)} == {0.0}
    assert {line["score_std"] for line in logged(tmp_path)} == {0.0}
    assert logged(tmp_path)[0]["return_std"] > 100
    capsys.readouterr()
    more = ("--set", f"{SET} clip_score=5", "--out", str(tmp_path / "clipped" / "out"))
    assert run(tmp_path, gpt2, "large", more=more) == 0
    assert {line["score_clip_fraction"] for line in logged(tmp_path / "clipped")} == {1.0}
    assert "100% of the scores were clipped to +- clip_score" in capsys.readouterr().err


def test_a_resumed_run_may_have_more_updates(tmp_path, gpt2):
    settings = f"{SET} num_updates=7 num_minibatches=2"
    assert run(tmp_path, gpt2, more=("--set", settings)) == 0
    before = logged(tmp_path)
    more = ("--set", settings.replace("7", "9") + " micro_rollout_batch_size=1", "--resume")
    assert run(tmp_path, gpt2, more=more) == 0
    assert logged(tmp_path)[:7] == before and len(logged(tmp_path)) == 9


@pytest.mark.parametrize(
    "setting, sentence",
    [
        ("long_prompts=cut", "expected long_prompts to be one of refuse, drop, truncate"),
        ("lora_rank=2 lora_targets=nothing", "expected lora_targets to name modules of GPT2"),
        ("stop_tokens=999", "got '999'"),
        ("micro_rollout_batch_size=3", "expected micro_rollout_batch_size to be at most batch_size, got 3 and 2"),
        ("samples_per_prompt=3", "expected batch_size to be a multiple of samples_per_prompt, got 2 and 3"),
        ("clip_epsilon=wide", "expected clip_epsilon in SET to be float | tuple[float, float], got 'wide'"),
        ("max_prompt_length=3", "2 of 2 prompts are longer than 3 tokens; shorten them, or set long_prompts"),
    ],
)
def test_an_option_out_of_range_is_one_sentence(setting, sentence, tmp_path, gpt2, capsys):
    assert run(tmp_path, gpt2, more=("--set", f"{SET} {setting}")) == 1
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
    assert not (tmp_path / "out" / "policy").exists()


def test_bfloat16_on_a_gpu_without_it_is_refused(monkeypatch, llama, tmp_path):
    source = in_bfloat16(llama, tmp_path / "model")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    with pytest.raises(ValueError, match="expected a device with bfloat16"):
        HubOptions(frozen_dtype="bfloat16")
    with pytest.raises(ValueError, match="expected a device with bfloat16"):
        hub_models.load_policy(source, print, "auto")
    assert hub_models.load_policy(source, print)[0].dtype == torch.float32


def test_a_value_with_a_blank_is_quoted():
    assert parse_settings("value='my model' kl_coef=1") == {"value": "my model", "kl_coef": 1}
    chosen, options = split_settings("value='my model'")
    assert options.value == "my model" and chosen["clip_score"] is None
