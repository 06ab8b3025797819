"""Text from students, made safe to show: no control characters, no formulas, no paths.

HTML is escaped by the templates, which get text that went through `clean` first.
"""

import re
import unicodedata

MAX_LINE = 200
FORMULA = "=+-@|%\uff1d\uff0b\uff0d\uff20"
"""What a spreadsheet takes for the start of a formula or a command, the first four in full width, too."""
INNER = re.compile(rf"([;,\t|][\s\"]*)(?=[{re.escape(FORMULA)}])")
"""Where a cell begins for a spreadsheet that splits a line elsewhere than at commas."""
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


def cell(value: object) -> str | int | float:
    """One cell of a CSV file: numbers stay numbers, None is empty, no text is a formula wherever a line is split."""
    if value is None or isinstance(value, (int, float)):
        return "" if value is None else value
    return ("'" if _is_formula(str(value)) else "") + INNER.sub(r"\1'", clean(value, 2_000))


def guarded(text: str) -> str:
    """A text as it is, with a mark before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if _is_formula(text) else text


def unguarded(text: str) -> str:
    """Without the mark that `guarded` puts, and with every other apostrophe."""
    return text[1:] if text[:1] == "'" and _is_formula(text) else text


def whole(text: str) -> str:
    """An id without the ".0" that a program puts behind what it takes for a number."""
    return re.sub(r"^(\d+)[.,]0+$", r"\1", text.strip())


def _is_formula(text: str) -> bool:
    """Or would be one without an apostrophe before it: so `guarded` has a way back."""
    text = text.lstrip("'")
    # A spreadsheet skips what it does not show: spaces, and characters that `clean` has replaced.
    start = next((letter for letter in text if not letter.isspace() and _visible(letter) == letter), "")
    return bool(start and start in FORMULA) or text.startswith(("\t", "\r", "\n"))


def _visible(letter: str) -> str:
    if letter in BREAKS or letter == "\t":
        return " "
    return "?" if letter not in JOINERS and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Cn") else letter
