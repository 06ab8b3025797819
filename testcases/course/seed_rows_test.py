"""Nothing is lost when a text is cut: each point of the documents that the course grew from stands where
`seed_rows.toml` says. Who moves a point changes its place there in the same commit."""

import re
import tomllib
from pathlib import Path

import pytest

from testcases.harness.catalog import ROOT

PLACES = tomllib.loads(Path(__file__).with_name("seed_rows.toml").read_text("utf-8"))
ROWS = [(file, number, *row) for file, rows in PLACES.items() for number, row in rows.items()]
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NUMBER_OF_ROWS = 322


def plain(text: str) -> str:
    """One line in small letters, without Markdown's stars and backticks."""
    return " ".join(re.sub(r"[*`]", "", text).lower().split())


def anchor_of(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections(text: str) -> dict[str, str]:
    """Anchor -> what stands between its heading and the next one, both of any level."""
    hidden = FENCE.sub(lambda match: re.sub(r"(?m)^#", " ", match[0]), text)
    headings = list(HEADING.finditer(hidden))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return {anchor_of(h[1]): plain(text[h.start() : end]) for h, end in zip(headings, ends, strict=True)}


def lost(file: str, anchor: str, words: list[str]) -> str | None:
    """What is wrong with a row's place, or None."""
    path = ROOT / file
    if not path.is_file():
        return f"there is no file {file}"
    found = sections(path.read_text("utf-8"))
    if anchor not in found:
        return f"{file} has no heading #{anchor}"
    missing = [word for word in words if plain(word) not in found[anchor]]
    elsewhere = [other for other, text in found.items() if all(plain(word) in text for word in words)]
    if not missing:
        return None
    return f"{file}#{anchor} has no longer {missing}" + (f"; all its words are in {elsewhere}" if elsewhere else "")


@pytest.mark.parametrize("file, number, anchor, taught, words", ROWS, ids=[f"row{row[1]}" for row in ROWS])
def test_row_stands_where_it_is_said_to(file: str, number: str, anchor: str, taught: str, words: list[str]):
    if problem := lost(file, anchor, words):
        pytest.fail(
            f"row {number}, {taught!r}: {problem}\n"
            "Restore it, or change its place in testcases/course/seed_rows.toml and link to it from here.",
            pytrace=False,
        )


def test_every_row_is_listed_once():
    numbers = sorted(int(number) for _, number, *_ in ROWS)
    assert numbers == list(range(1, NUMBER_OF_ROWS + 1))
    assert all(taught and words and min(map(len, words)) > 1 for _, _, _, taught, words in ROWS), "words to find it by"


def test_a_row_that_is_cut_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("testcases.course.seed_rows_test.ROOT", tmp_path)
    text = "# One\n\nThe **TD error**.\n\n```\n# no heading\n```\n\n## Two: `gamma`\n\nGAE over\nthe response\n"
    (tmp_path / "a.md").write_text(text, "utf-8")
    assert lost("a.md", "two-gamma", ["gae", "over the response"]) is None
    assert lost("a.md", "one", ["TD error", "no heading"]) is None
    assert lost("a.md", "one", ["GAE"]) == "a.md#one has no longer ['GAE']; all its words are in ['two-gamma']"
    assert lost("a.md", "three", ["GAE"]) == "a.md has no heading #three"
    assert lost("b.md", "one", ["GAE"]) == "there is no file b.md"
