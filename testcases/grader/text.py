"""Text from students: read as Python reads it, and made safe to show: no control characters, no formulas, no paths.

HTML is escaped by the templates, which get text that went through `clean` first.
"""

import codecs
import io
import re
import tokenize
import unicodedata

MAX_LINE = 200
FORMULA = "=+-@|%\uff1d\uff0b\uff0d\uff20"
"""What a spreadsheet takes for the start of a formula or a command, the first four in full width, too."""
BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
JOINERS = "\u200c\u200d"
"""Invisible, but part of the spelling of names in several scripts."""


def clean(text: object, limit: int = MAX_LINE) -> str:
    """One line without control characters, direction overrides and lone surrogates; each becomes `?`.

    Line breaks and tabs become spaces. What is longer than `limit` ends in an ellipsis.
    """
    text = str(text)
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    line = "".join(_visible(letter) for letter in text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "\u2026"


def clean_lines(text: object, lines: int = 60, width: int = 400) -> str:
    """The same for several lines; what is more than `lines` is counted, not shown."""
    found = re.split("\r\n|[" + BREAKS + "]", str(text)[: 4 * lines * width])
    shown = [clean(line.expandtabs(4), width) for line in found[:lines]]
    if len(found) > lines:
        shown.append(f"[{len(found) - lines} more lines]")
    return "\n".join(shown)


def name_of(text: object) -> str:
    """A name for a table, without the letter at which some spreadsheets split a line."""
    return clean(text).replace(";", ",").strip()


def guarded(text: str) -> str:
    """A text as it is, with a mark before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if _is_formula(text) else text


def unguarded(text: str) -> str:
    """Without the mark that `guarded` puts, and with every other apostrophe."""
    return text[1:] if text[:1] == "'" and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    """Or would be one without an apostrophe before it: so `guarded` has a way back."""
    return text.lstrip("'").lstrip().startswith(tuple(FORMULA))


def _visible(letter: str) -> str:
    if letter in BREAKS or letter == "\t":
        return " "
    return "?" if letter not in JOINERS and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Cn") else letter


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
