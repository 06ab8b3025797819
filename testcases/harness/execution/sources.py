"""The text of a file that somebody else has written, as Python reads it."""

import codecs
import io
import re
import tokenize


def text_of(data: bytes) -> str:
    """The text; what is no text in the file's own encoding is `\\ufffd`."""
    try:
        return data.decode(encoding_of(data), "replace")
    except Exception:  # A codec may refuse in any way; Python does not load such a file either.
        return data.decode("utf-8", "replace")


def encoding_of(data: bytes) -> str:
    """From the mark at its beginning, or from a comment in its first two lines."""
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    # Where Python loads a file it looks at no other letters of these lines than ASCII, and each \r ends a line.
    lines = re.split(rb"\r\n|\r|\n", data, maxsplit=2)[:2]
    head = re.sub(rb"[\x80-\xff]", b"?", b"\n".join(lines))
    try:
        return tokenize.detect_encoding(io.BytesIO(head).readline)[0]
    except SyntaxError:
        return "utf-8"
