"""Tokenizers without transformers, which takes seconds to import."""

from __future__ import annotations


class Letters:
    """Token 0 is padding, token 1 stops a response, token 2 is "a", token 3 is "b", and so on."""

    special = ("<pad>", "<stop>")

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(word) - ord("a") + len(self.special) for word in text.split()]}

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        count = len(self.special)
        kept = [one for one in ids if one >= count or not skip_special_tokens]
        return " ".join(self.special[one] if one < count else chr(one - count + ord("a")) for one in kept)
