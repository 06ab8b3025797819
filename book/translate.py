"""Bring a translation up to date: python -m book.translate zh_CN [--check].

Joins its catalogues with today's texts (make book-catalogues writes those), draws its figures, and says what is stale.
A message whose English changed keeps its translation, marked as fuzzy: the book shows the English until it is read.
"""

import argparse
import base64
import contextlib
import hashlib
import importlib
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

from testcases.harness.catalog import ROOT, TUTORIAL

from . import chinese, translation
from .translation import LOCALE, NUMBER, catalogue, of_figure, stored_figures

DOMAINS = ("book", "sphinx", "figures")
PATH = ("README.md", "tutorial/README.md", "tutorial/lesson00_one_screen/README.md")
NOTEBOOKS = ("04_gae", "05_ppo_loss", "06_kl_rewards", "12_capstone")
"""What a translation begins with: the way of somebody who reads and writes no code."""
TEMPLATES = ROOT / "runs" / "book-catalogues"
KEPT = re.compile(r"`+[^`]+`+|\$[^$]+\$|\]\([^)]+\)|(?<![A-Za-z0-9.])\d+(?:[.,]\d+)*(?![A-Za-z0-9-])")
"""What no translation changes: code, formulas, where links lead, numbers."""
FORMULA = re.compile(r"^[^$`]*\\[a-z]+[^$`]*$")
IN_BRACKETS = re.compile(r"\s*[(（].*?[)）]|`")
ABBREVIATION = re.compile(r"[A-Z]{2}")
IMAGE = re.compile(r"!\[.*?\]\((\S+?\.svg)\)", re.DOTALL)


def template(domain: str, folder: Path = TEMPLATES) -> Catalog:
    """The messages of the path and of the labels around all texts, without those that have no words."""
    files, kept = {*PATH, *(f"notebooks/{name}.ipynb" for name in NOTEBOOKS)}, Catalog(domain=domain)
    for entry in read_po(io.BytesIO((folder / f"{domain}.pot").read_bytes())):
        places = [(os.path.relpath(folder / place, ROOT), line) for place, line in entry.locations]
        shown = [one for one in places if one[0] in files or domain == "sphinx"]
        words = re.search("[A-Za-z]{2}", KEPT.sub(" ", str(entry.id)).replace("KL", "")) and not FORMULA.match(entry.id)
        if entry.id and shown and words:
            kept.add(entry.id, locations=shown)
    return kept


def terms() -> list[tuple[re.Pattern[str], str]]:
    """Pattern of an English term of the glossary -> its Chinese name, the longest first."""
    pairs = []
    for row in (TUTORIAL / "glossary.md").read_text("utf-8").splitlines():
        cells = [IN_BRACKETS.sub("", cell).strip() for cell in row.split("|")]
        if len(cells) == 6 and cells[1] != "term" and "---" not in cells[1]:
            english, other = cells[1].split(", "), cells[2].split("、")
            pairs += zip(english, other if len(other) == len(english) else cells[2:3] * len(english), strict=True)
    pairs.sort(key=lambda pair: -len(pair[0]))
    return [(re.compile(rf"\b{re.escape(name)}(?:s|es)?\b", re.IGNORECASE), other) for name, other in pairs]


def unsaid(entry: Message, known: list[tuple[re.Pattern[str], str]]) -> list[str]:
    """Terms of the message whose Chinese name its translation lacks. A comment "plain: group" says: here no term."""
    left, said = KEPT.sub(" ", str(entry.id)), str(entry.string)
    plain = {word for note in entry.user_comments for word in note.removeprefix("plain: ").split(", ")}
    missing = []
    for pattern, other in known:
        found = pattern.findall(left)
        left = pattern.sub(" ", left)
        if found and other not in said and not (found[0] in said and ABBREVIATION.search(found[0])):
            if not {word.lower() for word in found} <= plain:
                missing.append(f"{found[0]} ({other})")
    return missing


def problems(language: str, folder: Path = TEMPLATES) -> list[str]:
    """What of a translation is stale, missing or not as the glossary and the English have it, with its place."""
    known, found = terms(), []
    for domain in ("book", "sphinx"):
        texts, done = template(domain, folder), catalogue(language, domain)
        for entry in filter(lambda entry: entry.id, texts):
            place, line = entry.locations[0]
            wrong = faults(entry, done.get(entry.id), known)
            found += [f"{place}:{line}: {str(entry.id)[:60]!r} {fault}" for fault in wrong]
        found += [f"{entry.id[:60]!r}: no text has it any more" for entry in done if entry.id and entry.id not in texts]
    labels = [entry for entry in catalogue(language, "figures") if entry.id and (entry.fuzzy or not entry.string)]
    found += [f"{entry.id!r}, in a figure, is not translated, or changed since" for entry in labels]
    drawn = json.loads((LOCALE / language / "figures.json").read_text("utf-8"))
    found += [f"{name}: drawn from another figure" for name, stamp in stamps().items() if drawn.get(name) != stamp]
    every = "".join(str(entry.string) for domain in DOMAINS for entry in catalogue(language, domain))
    return found + [f"the book's font lacks {one}: see book/chinese.py" for one in chinese.missing(every)]


def faults(entry: Message, other: Message | None, known: list[tuple[re.Pattern[str], str]]) -> list[str]:
    """What is wrong with the translation of one message."""
    if other is None or other.fuzzy or not other.string:
        return ["is not translated, or changed since"]
    kept, wanted = ({*KEPT.findall(str(text))} for text in (other.string, entry.id))
    found = [f"has {one}, and its translation has not" for one in sorted(wanted - kept)]
    found += [f"is without the glossary's word for {lacking}" for lacking in unsaid(other, known)]
    if re.match(r"\d+\. |[-+*] ", str(other.string)):
        found.append("begins as a list, and would be left out: write 1\\.")
    return found


def stamps() -> dict[str, str]:
    """Figure of the path -> what its English looks like."""
    found = {}
    for text in PATH:
        for target in IMAGE.findall((ROOT / text).read_text("utf-8")):
            figure = ((ROOT / text).parent / target).resolve()
            found[figure.relative_to(ROOT).as_posix()] = hashlib.sha256(figure.read_bytes()).hexdigest()[:16]
    for name in NOTEBOOKS:
        for number, data in enumerate(stored_figures(cells_of(name))):
            picture = base64.b64decode(data["image/png"])
            found[f"notebooks/{name}-{number}.png"] = hashlib.sha256(picture).hexdigest()[:16]
    return found


def cells_of(name: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8"))["cells"]


def relabel(figure: Any, alt: str, language: str, seen: dict[str, None]) -> str:
    """Every text of a figure in the language; the alternative text, too, is returned in it."""
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter

    def other(text: str) -> str:
        if re.search("[A-Za-z]{2}", text):
            seen[NUMBER.sub("{}", text)] = None
        return of_figure(text, language)

    for axis in [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]:
        formatter = axis.get_major_formatter()
        if isinstance(formatter, FixedFormatter):  # writes the labels anew in each drawing
            formatter.seq = [other(label) for label in formatter.seq]
    for text in figure.findobj(Text):
        text.set_text(other(text.get_text()))
        if chinese.CHINESE.search(text.get_text()):
            text.set(fontfamily=["DejaVu Sans", "Droid Sans Fallback"], fontweight="normal")  # the font has no other
    return other(alt)


def draw_what_is_stale(language: str) -> None:
    """Draw the path's figures in the language where they, or the labels' translations, are others than last time."""
    labels = (LOCALE / language / "LC_MESSAGES" / "figures.po").read_bytes()
    wanted = {"labels": hashlib.sha256(labels).hexdigest(), **stamps()}
    record = translation.DRAWN / language / "figures.json"
    if not record.is_file() or json.loads(record.read_text("utf-8")) != wanted:
        print(f"book: the figures of the texts in {language}, a minute", file=sys.stderr)
        draw(language)
        record.write_text(json.dumps(wanted), "utf-8")


def draw(language: str) -> list[str]:
    """Draw the path's figures in the language, and return all that is written in them."""
    from .figures.__main__ import figures
    from .figures.style import as_svg

    chinese.install()
    seen: dict[str, None] = {}
    for path, figure, alt in figures([ROOT / name for name in stamps()]):
        svg = as_svg(figure, relabel(figure, alt, language, seen))
        write(translation.DRAWN / language / path.relative_to(ROOT), svg.encode())
    for name in NOTEBOOKS:
        for number, picture in enumerate(drawn_by(name, language, seen)):
            write(translation.DRAWN / language / "notebooks" / f"{name}-{number}.png", picture)
    return [*seen]


def drawn_by(name: str, language: str, seen: dict[str, None]) -> Iterator[bytes]:
    """What a notebook shows, with its texts in the language."""
    sys.path[:0] = [str(ROOT / "notebooks")]
    shown = importlib.import_module("figures")
    pictures: list[bytes] = []

    def show(figure: Any, alt: str, colors: int = 0) -> None:
        relabel(figure, alt, language, seen)
        pictures.append(shown.as_png(figure, colors or 64))

    shown.show, before = show, Path.cwd()
    os.chdir(ROOT / "notebooks")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    # A kernel shows no deprecation of what one library does to another.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for cell in cells_of(name):
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), namespace)
    os.chdir(before)
    yield from pictures


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def join(language: str, domain: str, texts: Catalog) -> None:
    """A catalogue with today's messages; what changed is fuzzy, what is gone is left out."""
    path = LOCALE / language / "LC_MESSAGES" / f"{domain}.po"
    kept = read_po(io.BytesIO(path.read_bytes()), language) if path.is_file() else Catalog(language, domain=domain)
    kept.update(texts, keep_user_comments=True)
    for entry in kept:
        entry.locations = [(place, None) for place, _ in dict(entry.locations).items()]
    buffer = io.BytesIO()
    write_po(buffer, kept, width=0, omit_header=False, ignore_obsolete=True, include_previous=True)
    write(path, buffer.getvalue())
    catalogue.cache_clear()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m book.translate")
    parser.add_argument("language")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    options = parser.parse_args()
    if not options.check:
        join(options.language, "book", template("book"))
        join(options.language, "sphinx", template("sphinx"))
        labels = Catalog()
        for text in draw(options.language):
            labels.add(text)
        join(options.language, "figures", labels)
        (LOCALE / options.language / "figures.json").write_text(json.dumps(stamps(), indent=1) + "\n", "utf-8")
    found = problems(options.language)
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
