"""The course speaks the field's language: no word of `words.toml` in a text, docstring, hint, test id or message."""

import ast
import io
import json
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from testcases.harness.catalog import ROOT, lesson_names

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
PHRASES = [(re.compile(pattern, re.IGNORECASE), write) for pattern, write, _ in WORDS["phrases"]]

CODE = [ROOT / folder for folder in WORDS["code"]["folders"]]
CHEATING = "corpus.py"
"""Code of those who cheat, in their words."""

TERMS = [
    re.sub(r"\s*\(.*?\)|`", "", row.split("|")[1]).strip().split(", ")[0]
    for row in (ROOT / "tutorial" / "glossary.md").read_text("utf-8").splitlines()
    if row.startswith("| ") and "| term |" not in row
]
"""The terms of the glossary, without what stands in brackets."""


def covered() -> Iterator[Path]:
    """Every file of the lessons and of what they are given; stubs are made from the solutions."""
    yield from (ROOT / name for name in WORDS["files"])
    yield from (path for folder in CODE for path in folder.rglob("*.py") if path.name != CHEATING)
    yield from (path for folder in ("ppo_by_hand/core", "tiny_models") for path in (ROOT / folder).glob("*.py"))
    for lesson in lesson_names():
        yield from (ROOT / "tutorial" / lesson).glob("*.md")
        yield from (ROOT / "book" / "figures").glob(f"{lesson}*.py")
        yield from (ROOT / "solutions" / lesson).glob("*.py")
        yield from (path for path in (ROOT / "testcases" / lesson).iterdir() if path.suffix in (".py", ".toml"))
        yield from (ROOT / "notebooks").glob(f"{lesson[len('lesson') :][:2]}_*.ipynb")
        yield from (ROOT / "notebooks" / "figures").glob(f"{lesson}*.py")


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """What a person reads in a file, with the line it begins in."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        for number, cell in enumerate(json.loads(text)["cells"]):
            source = "".join(cell["source"])
            yield from (
                (number, part)
                for _, part in (prose_of_python(source) if cell["cell_type"] == "code" else [(0, source)])
            )
    elif path.suffix == ".py":
        yield from prose_of_python(text)
    else:
        yield 1, text


def prose_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Strings, comments, and the names that a failure shows: those of functions and of a class's entries."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_slug = re.fullmatch(r"[\w-]+", node.value)
            yield node.lineno, re.sub(r"[_-]", " ", node.value) if is_slug else node.value
        elif isinstance(node, ast.FunctionDef):
            yield node.lineno, node.name.replace("_", " ")
        elif isinstance(node, ast.ClassDef):
            for entry in node.body:
                if isinstance(entry, ast.Assign) and isinstance(entry.targets[0], ast.Name):
                    yield entry.lineno, entry.targets[0].id.replace("_", " ")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def findings(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line (of a notebook: cell), the words, what to write, and the text around them."""
    for line, prose in prose_of(path):
        flat, starts = "", []
        for row in prose.splitlines():
            starts.append(len(flat))
            flat += row.strip() + " "
        for pattern, write in PHRASES:
            for match in pattern.finditer(flat):
                row = 0 if path.suffix == ".ipynb" else sum(start <= match.start() for start in starts) - 1
                yield line + row, match[0], write, flat[max(0, match.start() - 60) : match.end() + 60]


def excused(path: Path, write: str, around: str) -> bool:
    if write in WORDS["code"]["not"] and any(folder in path.parents for folder in CODE):
        return True
    return any(ROOT / one["file"] == path and one["text"] in around for one in WORDS["exception"])


@pytest.mark.parametrize("path", sorted(covered()), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_house_word(path: Path):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words!r}: write {write!r}\n    ... {around} ..."
        for line, words, write, around in findings(path)
        if not excused(path, write, around)
    ]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize("pattern, write, example", [pytest.param(*row, id=row[1]) for row in WORDS["phrases"]])
def test_phrase_catches_its_example(pattern: str, write: str, example: str):
    assert re.search(pattern, example, re.IGNORECASE)


@pytest.fixture(scope="module")
def lessons() -> str:
    """The map and the lessons in one line of small letters, without the stars and backticks of Markdown."""
    texts = [ROOT / "tutorial" / "README.md", *sorted((ROOT / "tutorial").glob("lesson*/*.md"))]
    return " ".join(re.sub(r"[*`]", "", "\n".join(path.read_text("utf-8") for path in texts)).lower().split())


@pytest.mark.parametrize("words", WORDS["searched"] + TERMS)
def test_what_a_reader_searches_for_is_in_a_lesson(words: str, lessons: str):
    assert words.lower() in lessons, "no text but the glossary has it: name it where it is explained"


@pytest.mark.parametrize("one", WORDS["exception"], ids=lambda one: one["text"])
def test_exception_is_needed(one: dict[str, str]):
    assert any(one["text"] in around for *_, around in findings(ROOT / one["file"])), "nothing there needs it: drop it"


PROJECT = re.compile(WORDS["projects"], re.IGNORECASE)
SOURCE = re.compile(r"\w#\d+|\]\(http|arxiv|\b\d+\.\d+\.\d+\b|commit [0-9a-f]{6}|\.py`|\w/[\w-]+, `", re.IGNORECASE)


def without_source(text: str) -> list[str]:
    """Paragraphs and points that speak of another project, and name no thread, version, file or page; not tables."""
    prose = re.sub(r"(?ms)^```.*?^```|^\|.*?$|^#.*?$|^More: .*?$", "", text)
    blocks = re.split(r"\n(?=- |\n)", prose)
    return [" ".join(block.split()) for block in blocks if PROJECT.search(block) and not SOURCE.search(block)]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tutorial").glob("lesson*/*.md")), ids=lambda path: path.parent.name[:8]
)
def test_what_a_lesson_says_of_another_project_has_a_source(path: Path):
    assert without_source(path.read_text("utf-8")) == []


def test_a_claim_without_source_is_found():
    assert without_source("- TRL forgets it.\n- verl does, too (verl#12).\n\n```\nTRL\n```\n") == ["- TRL forgets it."]
