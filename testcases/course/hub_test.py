"""PPO on checkpoints in the Hub's own layout, made here: three families, chat templates, rewards of every kind, LoRA,
precision, a run that goes on, and every bad input."""

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2ForSequenceClassification,
)

from ppo_by_hand.hub import models as hub_models
from ppo_by_hand.hub import rewards as hub_rewards
from solutions.demo import folder, hub
from solutions.lesson09_ppo_trainer import PPOTrainer
from testcases.course.hub import CALLS, LETTERS, SET, TEMPLATE, causal, classifier, run, save, tokenizer
from testcases.harness.suite.asserts import named

SETTINGS = f"{SET} learning_rate=0.01"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> str:
    return causal(tmp_path_factory.mktemp("models") / "gpt2")


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> str:
    return causal(tmp_path_factory.mktemp("models") / "llama", "llama")


def logged(tmp_path) -> list[dict]:
    return [json.loads(line) for line in (tmp_path / "out" / "log" / "metrics.jsonl").read_text().splitlines()]


ROWS = (
    *('{"prompt": "the cat", "answer": "a", "weight": 2}', '{"prompt": "a dog", "answer": "b", "weight": 3}'),
    *('{"prompt": "a dog", "answer": "c", "weight": 4}', '{"prompt": "<|user|>a dog"}'),
    '{"input_ids": [0, 7, 8], "attention_mask": [0, 1, 1]}',
)


@pytest.mark.parametrize(
    "family, chat, reward", [("gpt2", False, "likes_a"), ("llama", True, "likes_a"), ("qwen2", True, "takes_all")]
)
def test_a_tuned_policy_loads_anywhere_and_has_moved(family, chat, reward, tmp_path):
    """A reward function gets the column that it names, of the prompt's own line; its scores are not clipped."""
    CALLS.clear()
    source = causal(tmp_path / "model", family, tokenizer(chat))
    assert run(tmp_path, source, reward, "--set", f"{SETTINGS} batch_size=5", lines=ROWS, name="p.jsonl") == 0
    out = tmp_path / "out"
    before, after = (AutoModelForCausalLM.from_pretrained(one) for one in (source, out / "policy"))
    assert type(before) is type(after)
    assert any(not torch.equal(one, other) for one, other in zip(before.parameters(), after.parameters(), strict=True))
    words = AutoTokenizer.from_pretrained(out / "policy")
    assert words.get_vocab() == tokenizer().get_vocab() and words.chat_template == (TEMPLATE if chat else None)
    rows = {row for prompts, answers in CALLS for row in zip(prompts, answers, strict=True)}
    assert rows == {("the cat", "a"), ("a dog", "b"), ("a dog", "c"), ("<|user|>a dog", None), ("cd", None)}
    assert {one.name for one in out.iterdir()} == {"policy", "log", "checkpoints", "run.json"}
    assert [line["score_clip_fraction"] for line in logged(tmp_path)] == [0.0, 0.0]
    assert [file.name for file in (out / "log").glob("events*")], "TensorBoard's file"


def test_every_stop_token_of_the_generation_settings_ends_a_response(gpt2):
    model, words = hub_models.load_policy(gpt2, print)
    assert hub_models.stop_token_ids(model, words) == (1,)
    model.generation_config.eos_token_id = [1, 3]
    assert hub_models.stop_token_ids(model, words) == (1, 3)


def test_a_tokenizer_without_a_padding_token_takes_its_stop_token_and_says_so(tmp_path, capsys):
    assert run(tmp_path, causal(tmp_path / "model", words=tokenizer(pad=False))) == 0
    assert "has no pad token: its stop token <|end|> serves as one" in capsys.readouterr().out


def test_a_reward_model_whose_table_is_padded_further_than_the_policys_trains(tmp_path, gpt2, capsys):
    """As Qwen2.5-7B beside Qwen2.5-0.5B: one tokenizer, and tables of 152,064 and 151,936 rows."""
    words = tokenizer()
    source = classifier(tmp_path / "rm", words)
    model = GPT2ForSequenceClassification.from_pretrained(source)
    model.resize_token_embeddings(len(words) + 5)
    model.save_pretrained(source)
    assert run(tmp_path, gpt2, source) == 0
    assert "encoded again" not in capsys.readouterr().out, "it reads the policy's tokens"


def test_a_reward_model_with_another_tokenizer_gets_the_texts(tmp_path, gpt2, capsys):
    other = tokenizer(letters=LETTERS[::-1] + "!", pad=False)
    reward = hub_rewards.load_reward(classifier(tmp_path / "rm", other), tokenizer(), 0, print)
    (score,) = reward(["hi"], ["you"])
    model = GPT2ForSequenceClassification.from_pretrained(tmp_path / "rm")
    alone = model(**other("hi you", return_tensors="pt")).logits[0, 0].item()
    assert score == pytest.approx(alone, abs=1e-5)
    both = reward(["hi", "hi"], ["you", "all of you"])
    assert both[0] == pytest.approx(score, abs=1e-5), "padding does not reach a score"
    capsys.readouterr()
    assert run(tmp_path, gpt2, str(tmp_path / "rm")) == 0
    assert "other tokens than the policy: it gets the texts, encoded again" in capsys.readouterr().out


def test_a_reward_model_with_a_chat_template_gets_a_conversation(tmp_path):
    other = tokenizer(chat=True, letters=LETTERS[::-1])
    reward = hub_rewards.load_reward(classifier(tmp_path / "rm", other), tokenizer(), 0, print)
    model = GPT2ForSequenceClassification.from_pretrained(tmp_path / "rm")
    ids = other("<|user|>hi<|end|><|assistant|>yo<|end|>", add_special_tokens=False, return_tensors="pt")
    assert reward(["hi"], ["yo"])[0] == pytest.approx(model(**ids).logits[0, 0].item(), abs=1e-5)


def in_bfloat16(source: str, folder) -> str:
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    return save(folder, model, AutoTokenizer.from_pretrained(source))


LORA = "--lora-rank 2 --gradient-checkpointing"


@named(
    "family, options, dtype",
    {
        "all-weights": ("llama", "--frozen-dtype bfloat16", torch.bfloat16),
        "lora": ("gpt2", f"{LORA} --frozen-dtype bfloat16", torch.float32),
        "lora-on-16-bits": ("llama", f"{LORA} --dtype auto", torch.bfloat16),
    },
)
def test_a_policy_is_saved_whole_and_in_the_dtype_that_it_came_in(family, options, dtype, tmp_path):
    """A LoRA policy is its own reference, and only modules with an adapter have moved."""
    source = causal(tmp_path / "model", family)
    source = in_bfloat16(source, tmp_path / "narrow") if dtype == torch.bfloat16 else source
    assert run(tmp_path, source, "likes_a", "--set", SETTINGS, *options.split()) == 0
    before, tuned = (
        AutoModelForCausalLM.from_pretrained(one, dtype="auto") for one in (source, tmp_path / "out" / "policy")
    )
    assert {weight.dtype for weight in tuned.parameters()} == {dtype}
    moved = {
        name
        for (name, one), two in zip(before.named_parameters(), tuned.parameters(), strict=True)
        if not torch.allclose(one, two, atol=1e-6)
    }
    assert moved
    if LORA in options:
        assert not any("norm" in name or "wte" in name or "embed" in name for name in moved)
        assert abs(logged(tmp_path)[0]["kl"]) < 1e-5 < abs(logged(tmp_path)[1]["kl"])


def test_a_critic_may_start_from_the_reward_model(tmp_path, llama, monkeypatch):
    source, starts = classifier(tmp_path / "rm", tokenizer(), "llama"), []

    def seen(model, *rest):
        starts.append(model.value_model.head.weight.detach().clone())
        return PPOTrainer(model, *rest)

    monkeypatch.setattr(hub, "PPOTrainer", seen)
    assert run(tmp_path, llama, source, "--value", "reward") == 0
    assert torch.equal(starts[0], AutoModelForSequenceClassification.from_pretrained(source).score.weight)


BAD = {
    "hub-name-without-network": (
        {"policy": "nobody/no-model"},
        (),
        "or the name of one that can be downloaded, got nobody/no-model, which is no folder here (",
    ),
    "reward-raises": ({"reward": "raises"}, (), "the reward function raises raised KeyError"),
    "no-json": ({"lines": ("hello",), "name": "p.jsonl"}, (), 'to be JSON like {"prompt": "a text"}, got hello'),
    "unknown-setting": ({}, ("--set", "lr=1"), "expected settings of PPOConfig, got 'lr' in SET; help("),
    "no-module-for-lora": (
        {},
        ("--lora-rank", "2", "--lora-targets", "nothing"),
        "expected lora_targets to name modules of GPT2",
    ),
    "critic-of-a-function": (
        *({}, ("--value", "reward")),
        "expected REWARD to be a model with the policy's tokenizer for --value reward",
    ),
}
BAD_MODELS = {
    "reward-model-without-trained-head": (
        lambda gpt2, to: {"reward": causal(to, "llama")},
        (),
        "expected REWARD to be a module:function, or a sequence-classification model, got",
    ),
    "reward-model-with-two-labels": (
        lambda gpt2, to: {"reward": classifier(to, tokenizer(), labels=2)},
        (),
        "expected the reward model to have one label, the score; got",
    ),
}


@named("given, more, sentence", {**BAD, **BAD_MODELS})
def test_bad_input_is_one_sentence_and_leaves_no_policy(given, more, sentence, gpt2, tmp_path, capsys):
    given = {"policy": gpt2, "reward": "likes_a", **(given(gpt2, tmp_path / "model") if callable(given) else given)}
    capsys.readouterr()
    assert run(tmp_path, given.pop("policy"), given.pop("reward"), *more, **given) == 1
    said = capsys.readouterr().err.splitlines()
    errors = [line for line in said if not line.startswith("check: ")]
    assert len(errors) == 1 and errors[0].startswith("error: ") and sentence in errors[0], said
    assert not (tmp_path / "out" / "policy").exists()


def contents(out: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}


@pytest.mark.parametrize("mine, more", [("notes.txt", ()), ("checkpoints/a.txt", ("--resume",))])
def test_a_folder_with_files_of_the_user_is_refused_and_left_as_it_was(tmp_path, gpt2, mine, more, capsys):
    file = tmp_path / "out" / mine
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    assert run(tmp_path, gpt2, "likes_a", *more) == 1
    said = capsys.readouterr().err
    assert ("expected a checkpoint in" if more else "expected OUT to be a new or an empty folder, got") in said
    assert contents(tmp_path / "out") == {file: b"mine"} and "goes on" not in said


def test_a_second_run_is_refused_until_it_goes_on_with_the_first(tmp_path, gpt2, capsys):
    assert run(tmp_path, gpt2) == 0
    before, lines = contents(tmp_path / "out"), logged(tmp_path)
    assert run(tmp_path, gpt2) == 1
    assert "the same command with RESUME=1 (--resume) continues from it" in capsys.readouterr().err
    assert contents(tmp_path / "out") == before
    (tmp_path / "out" / "policy" / "notes.txt").write_text("mine")
    settings = SET.replace("num_updates=2", "num_updates=3") + " micro_rollout_batch_size=1"
    assert run(tmp_path, gpt2, "likes_a", "--set", settings, "--resume") == 0
    after = contents(tmp_path / "out")
    assert before.keys() < after.keys() and after[tmp_path / "out" / "policy" / "notes.txt"] == b"mine"
    assert logged(tmp_path)[:2] == lines and len(logged(tmp_path)) == 3


@named(
    "reward, settings, code, sentence",
    {
        "ctrl-c": ("pressed", "", folder.CTRL_C, "stopped by Ctrl-C\n"),
        "diverged": (
            *("likes_a", " learning_rate=1e30 num_epochs=3", folder.STOPPED),
            "error: stopped at update 1: NaN or infinity in policy_loss",
        ),
    },
)
def test_what_ends_a_run_has_an_exit_code_of_its_own(reward, settings, code, sentence, tmp_path, gpt2, capsys):
    assert run(tmp_path, gpt2, reward, "--set", SET + settings) == code
    said = capsys.readouterr().err
    assert sentence in said and "RESUME" not in said and not (tmp_path / "out" / "policy").exists()
    assert code == folder.CTRL_C or "the metrics are in" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_is_one_sentence(tmp_path, gpt2, capsys, monkeypatch):
    class Full:
        def save_pretrained(self, folder: Path) -> None:
            with open("/dev/full", "w") as file:
                file.write("weights")

    monkeypatch.setattr(hub, "save_model", lambda model, words, place: folder.save_model(Full(), words, place))
    assert run(tmp_path, gpt2) == 1
    said = capsys.readouterr().err
    assert "expected room for a model in" in said and "No space left" in said and "with RESUME=1" in said
