"""Write the pages that are made from texts, docstrings and code into book/made: python -m book.stage."""

import ast
import posixpath
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from mdit_py_plugins.anchors.index import slugify

from testcases.harness.catalog import END, REGION, ROOT, SOLUTIONS, TUTORIAL, lesson_names, read_lesson

MADE = Path(__file__).with_name("made")
TITLE = "What people get wrong"
ELSEWHERE = "The rest of this list is in [more.md](more.md#what-people-get-wrong-the-rest)."
WRONG = re.compile(rf"^## {TITLE}.*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)\s]+)(?=\))")
TOP = "../../"
"""From a generated page, in book/made, to the top of the repository."""
MISTAKES = f"""# {TITLE}

Here are the mistakes of all lessons on one page, so that you can search it for the symptom that you have. A name with a
number is an issue or a pull request of a real project in which somebody found this mistake.
"""


def mistakes() -> dict[str, str]:
    """What people get wrong, from all texts, on one page."""
    parts = [MISTAKES]
    for path in sorted(TUTORIAL.glob("lesson*/*.md"), key=lambda path: (path.parent, path.name != "README.md")):
        if path.name in ("README.md", "more.md") and (found := WRONG.search(path.read_text("utf-8"))):
            folder = path.parent.relative_to(ROOT).as_posix()
            if path.name == "README.md":
                parts.append(f"## [{title_of(path)}]({TOP}{folder}/README.md#{slugify(TITLE)})\n")
            parts.append(moved(found[1].replace(ELSEWHERE, ""), folder))
    return {"mistakes.md": "\n".join(parts)}


def title_of(path: Path) -> str:
    """The first heading of a text."""
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def moved(text: str, folder: str) -> str:
    """The text with its relative links as they read from a generated page."""
    return LINK.sub(lambda match: match[1] + TOP + posixpath.normpath(posixpath.join(folder, match[2])), text)


REFERENCE_PAGE = """# Reference

Shapes, errors, sources and the solution of every function. A student's own file has the same names:
`from tutorial.lesson04_gae import compute_gae`.
"""
SECTIONS = re.compile(r"^(?=(?:Args|Returns|Raises|Yields|Source|Attributes):)", re.MULTILINE)
LITERAL = re.compile(r"^\s|\S {2,}\S|^.{1,30} (=|<-) |^>>>", re.MULTILINE)
"""Tables, equations and examples of a docstring."""
MARKDOWN = re.compile(r"(?<!\w)\*(?!\w)|(?<=\w)\*(?=\w)|[\\_<>\[\]$#|~]")
"""What Markdown would read as its own; *emphasis* is meant as such."""


def reference() -> dict[str, str]:
    """One page for each lesson: signatures, docstrings as they stand, and the code, folded."""
    made = {f"reference_{lesson}.md": _page(lesson) for lesson in lesson_names()}
    return made | {"reference.md": "\n".join([REFERENCE_PAGE, "```{toctree}", *made, "```", ""])}


def _page(lesson: str) -> str:
    text = TUTORIAL / lesson / "README.md"
    title, names = title_of(text) if text.is_file() else lesson, read_lesson(lesson).names
    parts = [f"# Reference: {title[0].lower()}{title[1:]}", f"`from tutorial.{lesson} import ...`"]
    for path in [SOLUTIONS / lesson / f"{stem}.py" for stem in dict.fromkeys(names.values()) if "." not in stem]:
        source = path.read_text("utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
                parts += _entry(node, source.splitlines(), path)
    return "\n\n".join(parts) + "\n"


def _entry(node: ast.FunctionDef | ast.ClassDef, lines: list[str], path: Path) -> Iterator[str]:
    """Heading, signature, docstring, those of the methods, and the code."""
    yield f"## {node.name}"
    yield from _described(node, lines)
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and ast.get_docstring(method):
            yield f"### {node.name}.{method.name}"
            yield from _described(method, lines)
    yield f"<details><summary>The solution: {path.relative_to(ROOT).as_posix()}, line {node.lineno}</summary>"
    yield _code([line for line in lines[node.lineno - 1 : node.end_lineno] if line.strip() not in (REGION, END)])
    yield "</details>"


def _described(node: ast.FunctionDef | ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """What stands above the docstring, the docstring, and the fields of a class with what is said about them."""
    yield _code(lines[node.lineno - 1 : node.body[0].lineno - 1])
    parts = SECTIONS.split(ast.get_docstring(node) or "", maxsplit=1)
    for block in re.split(r"\n\s*\n", parts[0].strip()):
        yield f"```none\n{block}\n```" if LITERAL.search(block) else _prose(block)
    if len(parts) > 1:
        yield f"```text\n{parts[1]}\n```"
    fields = [field for field in node.body[1:] if isinstance(field, ast.AnnAssign | ast.Expr)]
    if isinstance(node, ast.ClassDef) and fields:
        yield _code(lines[fields[0].lineno - 1 : fields[-1].end_lineno])


def _prose(text: str) -> str:
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else MARKDOWN.sub(r"\\\g<0>", part) for part in parts)


def _code(lines: list[str]) -> str:
    return "```python\n" + textwrap.dedent("\n".join(lines)) + "\n```"


def stage() -> None:
    """Bring them up to date. A page that says the same is left alone, so that Sphinx need not read it again."""
    MADE.mkdir(exist_ok=True)
    made = mistakes() | reference()
    for name, text in made.items():
        path = MADE / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    for path in MADE.glob("*.md"):
        if path.name not in made:
            path.unlink()


if __name__ == "__main__":
    stage()
