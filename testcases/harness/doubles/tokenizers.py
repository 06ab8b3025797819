"""Tokenizers without transformers, which takes seconds to import."""

from string import ascii_lowercase
from typing import Any

import torch

from testcases.harness.doubles.outputs import Output


class Words:
    """Each word is a token; its number is its place in `words`. Those in angle brackets are special.

    Token 0 is padding, token 1 stops a response; a word that is not there becomes "<unk>".
    """

    pad_token_id, eos_token_id = 0, 1

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def __len__(self) -> int:
        return len(self.words)

    def __call__(
        self, text: str | list[str], padding: bool = False, return_tensors: str | None = None, **rest: Any
    ) -> Output:
        """Ids and attention mask of one text, or of several; they are padded on the left."""
        texts = [text] if isinstance(text, str) else text
        rows = [[self._id_of(word) for word in one.split()] for one in texts]
        width = max(map(len, rows), default=0) if padding else 0
        found: dict[str, Any] = {
            "input_ids": [[self.pad_token_id] * (width - len(row)) + row for row in rows],
            "attention_mask": [[0] * (width - len(row)) + [1] * len(row) for row in rows],
        }
        if return_tensors == "pt":
            found = {name: torch.tensor(ids) for name, ids in found.items()}
        elif isinstance(text, str):
            found = {name: ids[0] for name, ids in found.items()}
        return Output(**found)

    def encode(self, text: str, **options: Any) -> Any:
        return self(text, **options)["input_ids"]

    def _id_of(self, word: str) -> int:
        return self.words.index(word if word in self.words else "<unk>")

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **rest: Any) -> Any:
        """The text of one row of ids, a tensor, a list or a single number; of several rows their texts."""
        rows = token_ids if isinstance(token_ids, (list, tuple)) else torch.atleast_1d(torch.as_tensor(token_ids))
        if any(torch.as_tensor(one).dim() for one in rows):
            return [self.decode(row, skip_special_tokens) for row in rows]
        words = [self.words[int(one)] for one in rows]
        return " ".join(word for word in words if not (skip_special_tokens and word.startswith("<")))

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False, **rest: Any) -> list[str]:
        texts = self.decode(sequences, skip_special_tokens)
        return [texts] if isinstance(texts, str) else texts


class Letters(Words):
    """Token 2 is "a", token 3 is "b", and so on."""

    def __init__(self) -> None:
        super().__init__(("<pad>", "<stop>", *ascii_lowercase))
