"""Models in the Hub's own layout, reward functions and runs, for the tests of the preset `hub`."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

from solutions.demo import hub as command
from testcases.course.trainers import config_of, policy_of

HERE = "testcases.course.hub"
LETTERS = "abcdefghijklmnopqrstuvwxyz .:?"
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TINY = {"num_updates": 2, "batch_size": 2, "num_epochs": 1, "num_minibatches": 1, "max_new_tokens": 4}
SET = " ".join(f"{name}={value}" for name, value in TINY.items())


def tokenizer(chat: bool = False, pad: bool = True, letters: str = LETTERS) -> PreTrainedTokenizerFast:
    """One token a letter, with the special tokens of a chat model."""
    special = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|unk|>"]
    vocabulary = {token: number for number, token in enumerate([*special, *letters])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    words.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=words,
        eos_token="<|end|>",
        unk_token="<|unk|>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
        **({"pad_token": "<|pad|>"} if pad else {}),
    )
    made.chat_template = TEMPLATE if chat else None
    return made


def save(folder: Path, model, words: PreTrainedTokenizerFast) -> str:
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def special(words: PreTrainedTokenizerFast) -> dict[str, int | None]:
    return {"vocab_size": len(words), "bos_token_id": None, "eos_token_id": 1, "pad_token_id": words.pad_token_id}


def causal(folder: Path, family: str = "gpt2", words: PreTrainedTokenizerFast | None = None) -> str:
    words = tokenizer() if words is None else words
    return save(folder, policy_of(family, **special(words)), words)


def classifier(folder: Path, words: PreTrainedTokenizerFast, family: str = "gpt2", labels: int = 1) -> str:
    config = config_of(family, num_labels=labels, **special(words))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return save(folder, AutoModelForSequenceClassification.from_config(config), words)


CALLS: list[tuple[list[str], object]] = []


def likes_a(prompts: list[str], responses: list[str], answer: object = None) -> list[float]:
    """Ten points for each a; `answer` is a column that the prompts may have."""
    CALLS.append((prompts, answer))
    return [10.0 * response.count("a") for response in responses]


def takes_all(prompts: list[str], responses: list[str], **columns: list[object]) -> list[float]:
    assert columns.keys() == {"answer", "weight"}
    return likes_a(prompts, responses, columns["answer"])


def raises(prompts, responses):
    raise KeyError("no such thing")


def pressed(prompts, responses):
    raise KeyboardInterrupt


def prompt_file(folder: Path, *lines: str, name: str = "prompts.txt") -> Path:
    file = folder / name
    file.write_text("\n".join(lines) or "the cat\nwhere is it ?\n")
    return file


def run(tmp_path: Path, policy: str, reward: str = "likes_a", *more: str, lines: tuple = (), name: str = "prompts.txt"):
    """The command on these prompts; `reward` is a folder, or a function of this module by its name."""
    file = prompt_file(tmp_path, *lines, name=name)
    reward = reward if "/" in reward else f"{HERE}:{reward}"
    arguments = ["--policy", policy, "--reward", reward, "--prompts", str(file), "--out", str(tmp_path / "out")]
    return command.main([*arguments, "--set", SET, *more])
