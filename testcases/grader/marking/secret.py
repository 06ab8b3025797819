"""The secret that fresh inputs are drawn from: the suites are public, so whoever has it can write a table of answers.

It is 128 bits, made by the first run and kept beside its results, where only the instructor can read it. A result
holds a hash of it, and the inputs of one lesson of one submission come from another: nothing leads back, and what a
failure page shows of one submission's inputs says nothing about the inputs of the next.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from ppo_by_hand.core.files import write_text

FILE = "secret.key"
SEED_BITS = 128


@dataclass(frozen=True)
class Secret:
    """What only the instructor knows."""

    _key: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """Tells secrets apart, and says nothing about them."""
        return self._hash("id").hex()[:16]

    def seed(self, lesson: str, content: str) -> int:
        """Of the fresh inputs of one lesson of one submission."""
        return int.from_bytes(self._hash(f"seed\0{lesson}\0{content}")[: SEED_BITS // 8], "big")

    def _hash(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), "sha256")


def secret_of(text: str) -> Secret:
    """From any text. The detour by scrypt makes a short one slower to guess, and none as good as a made one."""
    return Secret(hashlib.scrypt(text.strip().encode(), salt=b"ppo-by-hand", n=2**14, r=8, p=1, dklen=32))


def new() -> Secret:
    """For this run only."""
    return secret_of(secrets.token_hex(16))


def kept_in(out: Path) -> Secret:
    """The secret of the results in a folder, made if there is none, for the owner alone by the umask of a run.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: there is nothing in it.
    """
    path = out / FILE
    if not path.exists():
        write_text(path, secrets.token_hex(16) + "\n", lasting=True)
    text = path.read_text("utf-8", "replace")
    if not text.strip():
        raise ValueError(
            f"SECRET: expected a secret in {str(path)!r}, which is empty; remove it, and a new one is made"
        )
    return secret_of(text)
