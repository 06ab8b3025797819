"""Texts on their way in and out: prompts become token ids, and a reward model or function scores what was written."""

from __future__ import annotations

import inspect
import json
import math
import operator
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .config import PPOConfig
from .files import first_line
from .progress import say_check
from .shapes import context_length

Prompt = str | list[int] | Mapping[str, Any]
"""A text, its token ids, or a row with a text as `prompt` or token ids as `input_ids`, and more columns."""
Scorer = Callable[..., Tensor]
"""(input_ids (B, L), attention_mask (B, L), prompt_length) -> scores (B,); that of a function also takes `prompts`."""
RewardFunction = Callable[..., Sequence[float]]
"""(prompts, responses) -> one number for each response; more arguments are columns of the prompts' rows, by name."""
RULE = "expected a list of prompts, each a text, a list of token ids, or a row with prompt or input_ids"
MESSAGES = "tokenizer.apply_chat_template(messages, add_generation_prompt=True) makes token ids of messages"


class Encoded(list[int]):
    """The token ids of a prompt, and what a reward function gets of it.

    Attributes:
        text: of a row, as it was written; None where only the token ids are known.
        columns: what else a row has, by name.
    """

    def __init__(self, ids: Sequence[int], text: str | None, columns: Mapping[str, Any]) -> None:
        super().__init__(ids)
        self.text, self.columns = text, columns


def tokenize(prompts: Sequence[Prompt], tokenizer: Any) -> list[Encoded]:
    """Return each prompt's token ids, not padded; those of a row have its columns. All else as `encode_prompts`."""
    if isinstance(prompts, str | Mapping) or not hasattr(prompts, "__len__"):
        raise ValueError(
            f"{RULE}, got a {type(prompts).__name__} in the place of the list; put one prompt into a list, take a part "
            "of a data set (such as its 'train'), or make a list of its rows"
        )
    if not len(prompts):
        raise ValueError("expected at least one prompt, got an empty list")
    return [_encoded(prompts[number], number, tokenizer) for number in range(len(prompts))]


def _encoded(prompt: Any, number: int, tokenizer: Any) -> Encoded:
    """The token ids of one prompt; the text of a row becomes a user's message where there is a chat template."""
    if isinstance(prompt, Encoded):
        return prompt
    is_row = isinstance(prompt, Mapping)
    row = prompt if is_row else {"prompt": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
    text, got = row.get("prompt"), f"got {repr(prompt)[:80]} as prompt {number}"
    if isinstance(text, str):
        if not callable(tokenizer):
            raise ValueError("expected token ids, got a text and no tokenizer; pass tokenizer= to PPOTrainer")
        ids = _encoded_text(text, tokenizer, is_message=is_row)
    else:
        ids = _token_ids(row, got)
    if not ids or (isinstance(text, str) and not text.strip()):
        raise ValueError(f"expected words or tokens in each prompt, {got}")
    columns = {name: value for name, value in row.items() if name not in ("prompt", "input_ids", "attention_mask")}
    return Encoded(ids, text if is_row else None, columns)


def _encoded_text(text: str, tokenizer: Any, is_message: bool) -> list[int]:
    if not is_message or tokenizer.chat_template is None:
        return list(tokenizer(text)["input_ids"])
    message = {"role": "user", "content": text}
    return list(tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=True)["input_ids"])


def _token_ids(row: Mapping[str, Any], got: str) -> list[int]:
    """Whole numbers in a list, an array or a tensor, without the padding, which has 0 in a row's attention mask."""
    given, mask = (_listed(row.get(name)) for name in ("input_ids", "attention_mask"))
    try:
        ids = [operator.index(one) for one in given]
    except TypeError as error:
        raise ValueError(f"{RULE}, {got}; {MESSAGES}") from error
    if mask is None:
        return ids
    real = [place for place, is_real in enumerate(mask) if is_real]
    if len(mask) != len(ids) or (real and real[-1] - real[0] >= len(real)):
        raise ValueError(
            f"expected attention_mask to have a 0 or 1 for each of the {len(ids)} input_ids, and no 0 between ones, "
            f"{got} with {str(mask)[:40]}"
        )
    return [ids[place] for place in real]


def _listed(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def encode_prompts(prompts: Sequence[Prompt], tokenizer: Any, pad_token_id: int) -> tuple[Tensor, Tensor]:
    """Encode prompts, padded on the *left*, so that generation starts from a real token in each row.

    Args:
        prompts: B texts, or B lists of token ids.
        tokenizer: a Hugging Face tokenizer; needed for texts only.
        pad_token_id: the id to pad with.

    Returns:
        (input_ids (B, P) int64, attention_mask (B, P) bool).

    Raises:
        ValueError: there are no prompts, one is empty, or texts came without a tokenizer.
    """
    rows = tokenize(prompts, tokenizer)
    width = max(len(row) for row in rows)
    input_ids = torch.tensor([[pad_token_id] * (width - len(row)) + row for row in rows])
    attention_mask = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows])
    return input_ids, attention_mask


def check_prompts(
    prompts: Sequence[Encoded], policy: Any, reward_model: nn.Module | RewardFunction, config: PPOConfig
) -> None:
    """Check before a run what it would meet only in the update in which it draws a prompt.

    Raises:
        ValueError: a prompt doesn't fit with its response into a model's context, or doesn't have a column that the
            reward function needs.
    """
    readers = {"policy": policy}
    if isinstance(reward_model, nn.Module):
        readers["reward model"] = reward_model
    else:
        columns_for(reward_model, prompts)
    longest = max(prompts, key=len)
    for name, reader in readers.items():
        context = context_length(reader)
        if context is not None and len(longest) + config.max_new_tokens > context:
            raise ValueError(
                f"expected prompt + response to fit the {name}'s context of {context} tokens, got {len(longest)} + "
                f"{config.max_new_tokens} for {_said(longest)!r}; shorten the prompts or lower max_new_tokens"
            )


def prepare(
    prompts: Sequence[Prompt], tokenizer: Any, policy: Any, reward_model: nn.Module | RewardFunction, config: PPOConfig
) -> list[Encoded]:
    """Tokenize and check the prompts of a run, and say what the tokenizer adds to them without being asked."""
    found = tokenize(prompts, tokenizer)
    check_prompts(found, policy, reward_model, config)
    count, first = len(found), getattr(tokenizer, "bos_token_id", None)
    if ended := sum(len(ids) > 1 and ids[-1] in config.stop_token_ids for ids in found):
        say_check(
            f"{ended} of {count} prompts end with a stop token, after which the policy would learn to go on: leave it "
            "out, for example with add_eos_token=False of the tokenizer"
        )
    if first is not None and (twice := sum(ids[:2] == [first, first] for ids in found)):
        say_check(
            f"{twice} of {count} prompts begin with two {tokenizer.bos_token}: the tokenizer adds one to each text, so "
            "leave out the one that the chat template has written"
        )
    return found


class PromptQueue:
    """Prompt numbers in shuffled order, every prompt once before any comes again; each is taken `samples` times."""

    def __init__(self, seed: int, samples: int = 1) -> None:
        self.samples = samples
        self.generator = torch.Generator().manual_seed(seed)
        self.waiting: list[int] = []

    def take(self, size: int, available: int) -> list[int]:
        """Return the next `size` numbers in [0, available), and refill the queue as often as it takes."""
        size //= self.samples
        self.waiting = [number for number in self.waiting if number < available]  # a resumed run may have fewer
        while len(self.waiting) < size:
            self.waiting += torch.randperm(available, generator=self.generator).tolist()
        taken, self.waiting = self.waiting[:size], self.waiting[size:]
        return [number for number in taken for _ in range(self.samples)]


def columns_for(function: Callable[..., Any], prompts: Sequence[Encoded]) -> dict[str, list[Any]]:
    """Return what a reward function takes of these prompts by name, beside their texts: all if it has `**columns`.

    Raises:
        ValueError: it needs one that a prompt doesn't have.
    """
    parameters = list(inspect.signature(function).parameters.values())[2:]
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    for prompt in prompts:
        for one in named:
            if one.default is one.empty and one.name not in prompt.columns:
                raise ValueError(
                    f"expected each prompt to have the column {one.name!r}, which the reward function "
                    f"{_name(function)} takes, got none in {_said(prompt)!r}"
                )
    there = {name for prompt in prompts for name in prompt.columns}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    wanted = sorted(there) if takes_all else [one.name for one in named if one.name in there]
    return {name: [prompt.columns.get(name) for prompt in prompts] for name in wanted}


def _said(prompt: Encoded) -> str:
    """The beginning of a prompt as it was written, for a message."""
    return (prompt.text or str(prompt))[:60]


def make_scorer(reward_model: nn.Module | RewardFunction, tokenizer: Any = None) -> Scorer:
    """Wrap a reward model or a reward function for the rollout.

    Args:
        reward_model: a module called with (input_ids, attention_mask) that returns (B,) scores, or an output with
            `logits` (B, 1); one with a `config`, as Hugging Face's classifiers have, gets its rows padded on the right
            with its own pad token, any other as they are. Or a function of (prompts, responses), lists of texts without
            special tokens.
        tokenizer: decodes the texts of a reward function; must be the policy's.

    Returns:
        (input_ids (B, L), attention_mask (B, L), prompt_length) -> (B,) float32 scores on the device of the ids. With
        `prompts`, the B prompts as they came or from `tokenize`, a function gets the text and the columns of each row.

    Raises:
        ValueError: it is neither, or a reward function came without a tokenizer; later, from the scorer: it returned
            the wrong count or shape, something that is no number, or NaN.
        RuntimeError: from the scorer: the reward function raised.
    """
    if isinstance(reward_model, nn.Module):
        return _module_scorer(reward_model)
    if not callable(reward_model):
        raise ValueError(f"expected a reward model or a function of (prompts, responses), got {reward_model!r}")
    if tokenizer is None:
        raise ValueError("expected a tokenizer with a reward function, got none; pass tokenizer= to PPOTrainer")
    return _function_scorer(reward_model, tokenizer)


def _module_scorer(reward_model: nn.Module) -> Scorer:
    config: Any = getattr(reward_model, "config", None)

    def score(input_ids: Tensor, attention_mask: Tensor, prompt_length: int, prompts: Sequence[Prompt] = ()) -> Tensor:
        if config is not None:
            input_ids, attention_mask = _right_padded(input_ids, attention_mask, config.pad_token_id)
        output = reward_model(input_ids=input_ids, attention_mask=attention_mask)
        scores = output.logits.squeeze(-1) if hasattr(output, "logits") else output
        if not isinstance(scores, Tensor) or scores.dim() != 1:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
            raise ValueError(f"expected the reward model to return scores (B,), or logits (B, 1), got {got}")
        return scores.float()

    return score


def _right_padded(input_ids: Tensor, attention_mask: Tensor, pad_token_id: int | None) -> tuple[Tensor, Tensor]:
    """The same rows with their padding on the right, as a Hugging Face classifier was trained.

    On the left, padding would move the positions (GPT-2 counts it); and a classifier reads the last token that is not
    its own pad token, which may be another than the policy's.
    """
    order = (~attention_mask).long().argsort(dim=1, stable=True)  # real tokens first, in their order
    attention_mask = attention_mask.gather(1, order)
    input_ids = input_ids.gather(1, order)
    return (input_ids if pad_token_id is None else input_ids.masked_fill(~attention_mask, pad_token_id)), attention_mask


def _function_scorer(function: RewardFunction, tokenizer: Any) -> Scorer:
    name = _name(function)

    def texts(input_ids: Tensor, attention_mask: Tensor) -> list[str]:
        rows = [row[real].tolist() for row, real in zip(input_ids, attention_mask, strict=True)]
        return [tokenizer.decode(row, skip_special_tokens=True) for row in rows]

    def score(input_ids: Tensor, attention_mask: Tensor, prompt_length: int, prompts: Sequence[Prompt] = ()) -> Tensor:
        said = texts(input_ids[:, :prompt_length], attention_mask[:, :prompt_length])
        encoded = tokenize(prompts, tokenizer) if prompts else []  # a caller may hand over rows as they are
        for row, prompt in enumerate(encoded):
            if prompt.text is not None:
                said[row] = prompt.text
        columns = columns_for(function, encoded)
        responses = texts(input_ids[:, prompt_length:], attention_mask[:, prompt_length:])
        count = len(responses)  # the function may change the list
        try:
            answer = function(said, responses, **columns)
            numbers = list(answer) if isinstance(answer, Iterable) else None
        except (Exception, SystemExit) as error:
            raise RuntimeError(f"the reward function {name} raised {with_place(error)}") from error
        if numbers is None or len(numbers) != count:
            raise ValueError(
                f"expected reward function {name} to return one number for each of {count} responses, got "
                f"{answer if numbers is None else len(numbers)}"
            )
        return torch.tensor([_number(value, name, row) for row, value in enumerate(numbers)], device=input_ids.device)

    return score


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


def with_place(error: BaseException) -> str:
    """Return the same error with the line of the user's code that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{first_line(error)} ({Path(place.filename).name}:{place.lineno})"


def _number(value: Any, name: str, row: int) -> float:
    """The score of one response as a float; a 0-dim tensor or a numpy number is one too."""
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError, RuntimeError):  # no number, or an array of several
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"expected reward function {name} to return finite numbers, got {repr(value)[:80]} for response {row}"
        )
    return number


def read_prompts(file: Path) -> list[dict[str, Any]]:
    """Read prompts as rows for `PPOTrainer.train`: one a line, or in a .jsonl file rows as it takes them.

    What else a JSON line has are columns: a reward function gets those that it names.

    Raises:
        ValueError: the file cannot be read, a line is no JSON, or there is none.
    """
    is_json = file.suffix.lower() == ".jsonl"
    if file.suffix.lower() in (".json", ".csv", ".tsv"):
        fix = "rename JSON lines to .jsonl, one prompt a line to .txt"
        raise ValueError(f"expected PROMPTS to be a text or JSONL file, got {file}; {fix}")
    try:
        # "utf-8-sig" drops a byte-order mark; splitlines would also break at characters that JSON allows in a text.
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected PROMPTS to be a text or JSONL file, got {file}: {error}") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        if line:
            try:
                rows.append(json.loads(line) if is_json else {"prompt": line})
            except json.JSONDecodeError as error:
                raise ValueError(
                    f'expected line {number} of {file} to be JSON like {{"prompt": "a text"}}, got {line[:60]}'
                ) from error
    if not rows:
        raise ValueError(f"expected a prompt in {file}, got none; write one a line")
    return rows
