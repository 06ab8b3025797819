"""The preset `hub` on checkpoints in the Hub's own layout, made here: three families, chat templates, rewards of every
kind, and every bad input."""

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2ForSequenceClassification

from ppo_by_hand import __main__ as library
from ppo_by_hand.hub import models as hub_models
from ppo_by_hand.hub import prompts as hub_prompts
from ppo_by_hand.hub import rewards as hub_rewards
from solutions.demo import folder, hub
from solutions.lesson09_ppo_trainer import PPOTrainer, make_scorer
from testcases.course import hub as here
from testcases.course.hub import CALLS, LETTERS, SET, TEMPLATE, causal, classifier, likes_a, run, save, tokenizer
from testcases.harness import named_cases
from testcases.harness.catalog import ROOT

SETTINGS = f"{SET} learning_rate=0.01"


@pytest.fixture(autouse=True)
def on_its_own():
    CALLS.clear()


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> str:
    return causal(tmp_path_factory.mktemp("models") / "gpt2")


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2"])
@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat-template"])
def test_a_tuned_policy_loads_anywhere_and_has_moved(family, chat, tmp_path):
    source = causal(tmp_path / "model", family, tokenizer(chat))
    assert run(tmp_path, source, more=("--set", f"{SET} learning_rate=0.01")) == 0
    before, after = (AutoModelForCausalLM.from_pretrained(one) for one in (source, tmp_path / "out" / "policy"))
    assert type(before) is type(after)
    assert any(not torch.equal(one, other) for one, other in zip(before.parameters(), after.parameters(), strict=True))
    words = AutoTokenizer.from_pretrained(tmp_path / "out" / "policy")
    assert words.get_vocab() == tokenizer().get_vocab() and words.chat_template == (TEMPLATE if chat else None)
    assert {prompt for prompts, _ in CALLS for prompt in prompts} == {"the cat", "where is it ?"}
    out = tmp_path / "out"
    assert {one.name for one in out.iterdir()} == {"policy", "log", "checkpoints", "run.json"}
    assert len((out / "log" / "metrics.jsonl").read_text().splitlines()) == 2


def test_a_chat_template_is_applied_to_texts():
    words = tokenizer(chat=True)
    prompt = hub_prompts._from_json('{"prompt": "hi"}', "line 1")
    assert words.decode(hub_prompts.encode_prompt(prompt.text, words)) == "<|user|>hi<|end|><|assistant|>"
    assert words.decode(hub_prompts.encode_prompt(prompt.text, tokenizer())) == "hi"


def test_every_stop_token_of_the_generation_settings_ends_a_response(gpt2):
    model, words = hub_models.load_policy(gpt2, print)
    assert hub_models.stop_token_ids(model, words) == (1,)
    model.generation_config.eos_token_id = [1, 3]
    assert hub_models.stop_token_ids(model, words) == (1, 3)


def test_a_tokenizer_without_a_padding_token_takes_its_stop_token_and_says_so(tmp_path, capsys):
    source = causal(tmp_path / "model", words=tokenizer(pad=False))
    assert run(tmp_path, source) == 0
    assert "has no pad token: its stop token <|end|> serves as one" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_reward_model_with_the_same_tokenizer_scores_what_it_would_score_alone(family, tmp_path):
    words = tokenizer()
    reward = hub_rewards.load_reward(classifier(tmp_path / "rm", words, family), words, len(words), print)
    texts = ["the cat sat", "a"]
    left = [words(text)["input_ids"] for text in texts]
    width = max(map(len, left)) + 2
    ids = torch.tensor([[0] * (width - len(row)) + row for row in left])
    scores = make_scorer(reward)(ids, ids != 0, width)
    for text, score in zip(texts, scores, strict=True):
        alone = reward(**words(text, return_tensors="pt")).logits[0, 0]
        assert torch.allclose(score, alone, atol=1e-5)


def test_a_reward_model_whose_table_is_padded_further_than_the_policys_trains(tmp_path, gpt2, capsys):
    """As Qwen2.5-7B beside Qwen2.5-0.5B: one tokenizer, and tables of 152,064 and 151,936 rows."""
    words = tokenizer()
    source = classifier(tmp_path / "rm", words)
    model = GPT2ForSequenceClassification.from_pretrained(source)
    model.resize_token_embeddings(len(words) + 5)
    model.save_pretrained(source)
    assert run(tmp_path, gpt2, source) == 0
    assert "encoded again" not in capsys.readouterr().out, "it reads the policy's tokens"


def test_a_reward_model_with_another_tokenizer_gets_the_texts(tmp_path, capsys):
    other = tokenizer(letters=LETTERS[::-1] + "!")
    said: list[str] = []
    reward = hub_rewards.load_reward(classifier(tmp_path / "rm", other), tokenizer(), 0, said.append)
    assert "other tokens than the policy: it gets the texts, encoded again" in said[0]
    (score,) = reward(["hi"], ["you"])
    model = GPT2ForSequenceClassification.from_pretrained(tmp_path / "rm")
    alone = model(**other("hi you", return_tensors="pt")).logits[0, 0].item()
    assert score == pytest.approx(alone, abs=1e-5)
    both = reward(["hi", "hi"], ["you", "all of you"])
    assert both[0] == pytest.approx(score, abs=1e-5), "padding does not reach a score"


def test_a_reward_model_with_a_chat_template_gets_a_conversation(tmp_path):
    other = tokenizer(chat=True, letters=LETTERS[::-1])
    reward = hub_rewards.load_reward(classifier(tmp_path / "rm", other), tokenizer(), 0, print)
    model = GPT2ForSequenceClassification.from_pretrained(tmp_path / "rm")
    ids = other("<|user|>hi<|end|><|assistant|>yo<|end|>", add_special_tokens=False, return_tensors="pt")
    assert reward(["hi"], ["yo"])[0] == pytest.approx(model(**ids).logits[0, 0].item(), abs=1e-5)


def test_a_whole_run_with_a_reward_model_of_another_tokenizer(tmp_path, gpt2):
    rewarder = classifier(tmp_path / "rm", tokenizer(letters=LETTERS[::-1]), "llama")
    assert run(tmp_path, gpt2, rewarder) == 0
    assert (tmp_path / "out" / "policy" / "model.safetensors").is_file()


def changed(source: str, folder: Path, change, words=None) -> str:
    """The policy of a folder after a change, in another folder, with its tokenizer or this one."""
    model, words = AutoModelForCausalLM.from_pretrained(source), words or AutoTokenizer.from_pretrained(source)
    with torch.no_grad():
        change(model)
    return save(folder, model, words)


def without_specials():
    words = tokenizer(letters=LETTERS[::-1], pad=False)
    words.eos_token = None
    return words


def raising_template():
    words = tokenizer(chat=True)
    words.chat_template = "{{ raise_exception('no system role') }}"
    return words


BAD = {
    "hub-name-without-network": ({"policy": "nobody/no-model"}, "without a network"),
    "reward-without-network": ({"reward": "nobody/no-model"}, "expected REWARD to be a folder"),
    "no-colon": ({"reward": "no/colon"}, "or a model that can be downloaded (or module:function)"),
    "reward-raises": ({"reward": "raises"}, "the reward function raises raised KeyError"),
    "reward-exits": ({"reward": "exits"}, "the reward function exits raised SystemExit: 0 (hub.py:"),
    "reward-count": ({"reward": "too_few"}, "one number for each of 2 responses, got 1"),
    "context": ({"lines": ("a", "a" * 61)}, "expected prompt 2 (61 tokens) and 4 new ones to fit"),
    "bad-jsonl": ({"lines": ('{"prompt": "a"}', '{"text": "a"}'), "name": "p.jsonl"}, "expected line 2 of"),
    "messages": (
        {"lines": ('{"prompt": [{"role": "user", "content": "a"}]}',), "name": "p.jsonl"},
        'p.jsonl to be JSON like {"prompt": "a text"}, got {"prompt": [{',
    ),
    "half-a-surrogate-pair": (
        {"lines": (r'{"prompt": "\ud800"}',), "name": "p.jsonl"},
        "expected a prompt that the policy's tokenizer can encode",
    ),
    "minibatches": ({"more": ("--set", "batch_size=2 num_minibatches=4")}, "lower num_minibatches"),
    "too-large-for-a-float": ({"more": ("--set", f"kl_horizon={10**400}")}, "expected kl_horizon in [1"),
    "value": ({"more": ("--value", "no/value")}, "expected VALUE to be a folder"),
    "seed": ({"more": ("--seed", "9" * 20)}, "expected SEED in [0, "),
    "no-out": ({"more": ("--out", "")}, "expected OUT to be a new or an empty folder, got ."),
    "another-preset": ({"more": ("--preset", "tiny")}, "with PRESET=hub only"),
    "unknown-setting": ({"more": ("--set", "lr=1")}, "got 'lr'; the closest one is "),
    "nothing-to-resume": ({"more": ("--resume",)}, "expected a checkpoint in"),
}
BAD_MODELS = {
    "reward-model-without-trained-head": (
        lambda gpt2, to: {"reward": causal(to, "llama")},
        "expected REWARD to be a sequence-classification model, got",
    ),
    "policy-without-trained-head": (
        lambda gpt2, to: {"policy": classifier(to, tokenizer(), "llama")},
        "without trained weights for lm_head.weight",
    ),
    "reward-model-with-two-labels": (
        lambda gpt2, to: {"reward": classifier(to, tokenizer(), labels=2)},
        "expected REWARD to have one label, the score; got",
    ),
    "reward-model-with-nothing-to-pad-with": (
        lambda gpt2, to: {"reward": classifier(to, without_specials())},
        "to have a padding or stop (eos) token, got neither",
    ),
    "tokenizer-larger-than-its-model": (
        lambda gpt2, to: {"policy": changed(gpt2, to, lambda model: model, tokenizer(letters=LETTERS + "!#"))},
        "to have at most the 35 tokens of its model, got 37",
    ),
    "weights-of-nan": (
        lambda gpt2, to: {"policy": changed(gpt2, to, lambda model: model.transformer.ln_f.weight.fill_(torch.nan))},
        "expected POLICY to have finite weights, got NaN",
    ),
    "template-that-raises": (
        lambda gpt2, to: {"policy": causal(to, words=raising_template())},
        "tokenizer can encode, got 'the cat' (TemplateError: no system role)",
    ),
}


@named_cases("given, sentence", {**BAD, **BAD_MODELS})
def test_bad_input_is_one_sentence_and_leaves_no_policy(given, sentence, gpt2, tmp_path, capsys):
    given = given(gpt2, tmp_path / "model") if callable(given) else given
    capsys.readouterr()
    assert run(tmp_path, **{"policy": gpt2, **given}) == 1
    said = capsys.readouterr().err.splitlines()
    errors = [line for line in said if not line.startswith("check: ")]
    assert len(errors) == 1 and errors[0].startswith("error: ") and sentence in errors[0], said
    assert not (tmp_path / "out" / "policy").exists()


def test_a_reward_model_with_fewer_tokens_than_the_policy_gets_the_texts(tmp_path, capsys):
    def longer(model):
        model.resize_token_embeddings(200)

    policy = changed(causal(tmp_path / "policy"), tmp_path / "longer", longer)
    assert run(tmp_path, policy, classifier(tmp_path / "rm", tokenizer())) == 0
    assert "has other tokens than the policy: it gets the texts" in capsys.readouterr().out


def test_brackets_are_no_markup(tmp_path, gpt2, capsys):
    policy = causal(tmp_path / "a[", words=tokenizer(pad=False))
    assert run(tmp_path, policy) == 0
    (tmp_path / "b[").mkdir()
    assert run(tmp_path, gpt2, more=("--out", str(tmp_path / "b[" / "x]"))) == 0
    assert f"saved {tmp_path / 'b[' / 'x]' / 'policy'}" in capsys.readouterr().out


def test_characters_that_json_allows_do_not_end_a_line(tmp_path, gpt2):
    file = tmp_path / "p.JSONL"
    file.write_text('\ufeff{"prompt": "a\u2028b"}\r\n{"prompt": "c"}\n', encoding="utf-8")
    assert [prompt.text for prompt in hub_prompts.read_prompts(file)] == ["a\u2028b", "c"]


def contents(out: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}


@pytest.mark.parametrize("more", [(), ("--resume",)], ids=["plain", "resume"])
@pytest.mark.parametrize("mine", ["notes.txt", "policy/model.safetensors", "log/metrics.jsonl", "checkpoints/a.txt"])
def test_a_folder_with_files_of_the_user_is_refused_and_left_as_it_was(tmp_path, gpt2, mine, more, capsys):
    file = tmp_path / "out" / mine
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    assert run(tmp_path, gpt2, more=more) == 1
    said = capsys.readouterr().err
    assert ("expected a checkpoint in" if more else "expected OUT to be a new or an empty folder, got") in said
    assert contents(tmp_path / "out") == {file: b"mine"} and "go on with" not in said


def test_a_second_run_is_refused_until_it_goes_on_with_the_first(tmp_path, gpt2, capsys):
    assert run(tmp_path, gpt2) == 0
    before = contents(tmp_path / "out")
    assert run(tmp_path, gpt2) == 1
    assert "choose another, or go on with the run in it: RESUME=1 (--resume)" in capsys.readouterr().err
    assert contents(tmp_path / "out") == before
    (tmp_path / "out" / "policy" / "notes.txt").write_text("mine")
    assert run(tmp_path, gpt2, more=("--set", SET.replace("num_updates=2", "num_updates=3"), "--resume")) == 0
    after = contents(tmp_path / "out")
    assert before.keys() < after.keys() and after[tmp_path / "out" / "policy" / "notes.txt"] == b"mine"


REWARD = """
import os, signal
calls = 0
def longest(prompts, responses):
    global calls
    calls += 1
    if calls == 8 and os.path.exists("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return [float(len(response)) for response in responses]
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_policy_of_one_that_was_left_alone(tmp_path, gpt2, monkeypatch, capsys):
    (tmp_path / "killing_reward.py").write_text(REWARD)
    (tmp_path / "prompts.txt").write_text("the cat\nwhere is it ?\na dog\n")
    (tmp_path / "kill").touch()
    given = ["train", "--policy", gpt2, "--reward", "killing_reward:longest", "--prompts", "prompts.txt"]
    given += ["--set", f"{SETTINGS} num_updates=9", "--out"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ppo_by_hand", *given, "killed"]
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode == -9
    (tmp_path / "kill").unlink()
    monkeypatch.chdir(tmp_path)
    assert not Path("killed/policy").exists()
    assert library.main([*given, "killed", "--resume"]) == 0
    assert "going on after update 5" in capsys.readouterr().out
    assert library.main([*given, "alone"]) == 0
    for file in ("policy/model.safetensors", "log/metrics.jsonl"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()


def test_seed_decides_the_random_numbers_of_a_reward_function(tmp_path, gpt2):
    found = []
    for name in ("a", "b"):
        random.seed(name)
        (tmp_path / name).mkdir()
        assert run(tmp_path / name, gpt2, "draws") == 0
        found.append((tmp_path / name / "out" / "log" / "metrics.jsonl").read_text())
    assert found[0] == found[1]


def test_a_run_whose_reward_failed_goes_on_from_its_checkpoint(tmp_path, gpt2, capsys, monkeypatch):
    settings = ("--set", f"{SET} num_updates=7")
    monkeypatch.setattr(here, "flaky", here.raises_later, raising=False)
    assert run(tmp_path, gpt2, "flaky", more=settings) == 1
    said = capsys.readouterr().err
    assert "raised KeyError" in said and "to go on from the last checkpoint, add RESUME=1" in said
    monkeypatch.setattr(here, "flaky", likes_a)
    assert run(tmp_path, gpt2, "flaky", more=(*settings, "--resume")) == 0


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(tmp_path, gpt2, capsys, monkeypatch):
    def pressed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(here, "pressed", pressed, raising=False)
    assert run(tmp_path, gpt2, "pressed") == 130
    assert "stopped by Ctrl-C; there is no checkpoint yet, so start again" in capsys.readouterr().err


def test_a_run_that_diverges_stops_and_names_the_check(tmp_path, gpt2, capsys):
    settings = f"{SET} learning_rate=1e30 warmup_updates=0 num_epochs=3"
    assert run(tmp_path, gpt2, more=("--set", settings)) == 3
    said = capsys.readouterr().err
    assert "error: stopped at update 1: NaN or infinity in policy_loss" in said
    assert "the metrics are in" in said and "RESUME" not in said
    assert not (tmp_path / "out" / "policy").exists()


def test_a_check_of_stop_on_ends_a_run_with_its_own_exit_code(tmp_path, gpt2, capsys):
    settings = f"{SET} learning_rate=1 warmup_updates=0 num_epochs=3 num_updates=3"
    assert run(tmp_path, gpt2, more=("--set", f"{settings} stop_on=stop_rate,clip")) == 3
    assert '(stop_on has "' in capsys.readouterr().err


OTHERS = {
    "another-seed": ({"more": ("--seed", "1")}, "got SEED 1 where it has 0"),
    "another-reward": ({"reward": "draws"}, "got REWARD 'testcases.course.hub:draws' where it has"),
    "other-prompts": ({"lines": ("a dog",)}, "got PROMPTS 'prompts.txt ("),
    "another-dtype": ({"more": ("--set", f"{SET} frozen_dtype=float32")}, "got frozen_dtype 'float32' where it has"),
    "another-setting": ({"more": ("--set", f"{SET} kl_coef=0.2")}, "same settings, got kl_coef 0.05"),
    "fewer-updates": ({"more": ("--set", f"{SET} num_updates=1")}, "expected num_updates to be at least the 2"),
}


@named_cases("given, sentence", OTHERS)
def test_another_run_cannot_go_on_with_this_one(given, sentence, finished, tmp_path, capsys):
    policy, place = finished
    more = given.get("more", ())
    assert run(tmp_path, policy, **{**given, "more": (*more, "--out", str(place / "out"), "--resume")}) == 1
    said = capsys.readouterr().err
    assert sentence in said and said.startswith("error: ") and said.count("\n") == 1


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[str, Path]:
    """A policy, and the folder of a run of it."""
    place = tmp_path_factory.mktemp("finished")
    policy = causal(place / "policy")
    assert run(place, policy) == 0
    return policy, place


def test_other_weights_in_the_same_folder_cannot_go_on_with_a_run(tmp_path, capsys):
    source = causal(tmp_path / "policy")
    assert run(tmp_path, source) == 0
    changed(source, Path(source), lambda model: model.transformer.wte.weight.mul_(1.001))
    capsys.readouterr()
    assert run(tmp_path, source, more=("--resume",)) == 1
    assert "got POLICY '" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[1]", "3"])
def test_a_damaged_record_of_the_run_is_one_sentence(content, tmp_path, gpt2, capsys):
    assert run(tmp_path, gpt2) == 0
    (tmp_path / "out" / "run.json").write_text(content)
    capsys.readouterr()
    assert run(tmp_path, gpt2, more=("--resume",)) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: expected") and "run.json" in said and said.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_is_one_sentence(tmp_path, gpt2, capsys, monkeypatch):
    class Full:
        def save_pretrained(self, folder: Path) -> None:
            with open("/dev/full", "w") as file:
                file.write("weights")

    monkeypatch.setattr(hub, "save_model", lambda model, words, place: folder.save_model(Full(), words, place))
    assert run(tmp_path, gpt2) == 1
    said = capsys.readouterr().err
    assert "expected room for a model in" in said and "No space left" in said and "add RESUME=1" in said
    monkeypatch.setattr(PPOTrainer, "train", no_room)
    assert run(tmp_path, gpt2, more=("--out", str(tmp_path / "other"))) == 1
    assert f"expected to read and write in {tmp_path / 'other'}, got: [Errno 28]" in capsys.readouterr().err


def no_room(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
