"""The text of a Python file, decoded as Python decodes it."""

import codecs
import io
import re
import tokenize

ORDINARY = re.compile(
    r"utf-8(-sig)?|ascii|iso8859-\d+|cp125\d|cp932|shift_jis|euc_jp|gbk|gb2312|gb18030|big5|cp949|euc_kr|koi8-[ru]"
)
"""Encodings that people's editors write. In others code can read like a comment, such as `+AAo-` in UTF-7."""


def text_of(data: bytes) -> str:
    """The text; what is no text in the file's own encoding is `\\ufffd`."""
    try:
        return data.decode(_encoding_of(data), "replace")
    except Exception:  # A codec may refuse in any way; Python does not load such a file either.
        return data.decode("utf-8", "replace")


def strange_encoding(data: bytes) -> str:
    """The encoding that a file asks for, if that is one in which nobody writes Python; else empty."""
    encoding = _encoding_of(data)
    try:
        name = codecs.lookup(encoding).name
    except Exception:
        return encoding
    return "" if ORDINARY.fullmatch(name) else encoding


def _encoding_of(data: bytes) -> str:
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
