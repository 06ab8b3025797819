"""One reference page for each lesson: signatures, docstrings, and the code, folded."""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from testcases.harness.catalog import END, REGION, ROOT, SOLUTIONS, TUTORIAL, lesson_names
from testcases.harness.catalog import lesson as read_lesson

from .texts import title_of

SECTIONS = ("Args", "Returns", "Raises", "Yields", "Source", "Attributes")
PLAIN = re.compile(r"(?<!\w)\*(?!\w)|(?<=\w)\*(?=\w)|[\\_<>\[\]$#|~]")
"""What Markdown would read as its own; *emphasis* is meant as such."""
Definition = ast.FunctionDef | ast.ClassDef


def pages() -> dict[str, str]:
    made = {f"reference_{lesson}.md": _lesson_page(lesson) for lesson in lesson_names()}
    listed = "\n".join(["```{toctree}", *made, "```"])
    made["reference.md"] = (
        "# Reference\n\nShapes, errors, sources and the solution of every function, from the docstrings. "
        "A student's own file has the same names: `from tutorial.lesson04_gae import compute_gae`.\n\n" + listed + "\n"
    )
    return made


def _lesson_page(lesson: str) -> str:
    text = TUTORIAL / lesson / "README.md"
    title = title_of(text) if text.is_file() else lesson
    names = read_lesson(lesson).names
    files = [SOLUTIONS / lesson / f"{stem}.py" for stem in dict.fromkeys(names.values()) if "." not in stem]
    return _page(f"Reference: {title[0].lower()}{title[1:]}", f"`from tutorial.{lesson} import ...`", files, set(names))


def _page(title: str, introduction: str, files: list[Path], only: set[str]) -> str:
    parts = [f"# {title}", introduction]
    for path in files:
        source = path.read_text("utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, Definition) and not node.name.startswith("_") and node.name in only:
                parts += _entry(node, source, path)
    return "\n\n".join(parts) + "\n"


def _entry(node: Definition, source: str, path: Path) -> Iterator[str]:
    """Heading, signature, docstring, methods, and the code."""
    yield f"## {node.name}"
    yield _code(_signature(node, source))
    yield from _described(ast.get_docstring(node))
    if isinstance(node, ast.ClassDef):
        yield from _fields(node)
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and ast.get_docstring(method):
                yield f"### {node.name}.{method.name}"
                yield _code(_signature(method, source))
                yield from _described(ast.get_docstring(method))
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    where = f"{path.relative_to(ROOT).as_posix()}, line {node.lineno}"
    yield f"<details><summary>The solution: {where}</summary>"
    yield _code("\n".join(line for line in lines if line.strip() not in (REGION, END)))
    yield "</details>"


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _signature(node: Definition, source: str) -> str:
    """As it stands in the file, up to the docstring."""
    lines = source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
    return textwrap.dedent("\n".join(lines)).rstrip().removesuffix(":")


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """The fields of a dataclass or NamedTuple with the strings that describe them."""
    rows = []
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_"):
            described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = str(after.value.value) if described else ""
            default = f" = {ast.unparse(field.value)}" if field.value else ""
            name = f"`{ast.unparse(field.target)}: {ast.unparse(field.annotation)}{default}`"
            rows.append(f"{name}\n: {_plain(text)}" if text else name)
    if rows:
        yield "\n\n".join(rows)


def _described(docstring: str | None) -> Iterator[str]:
    """The docstring as Markdown: paragraphs, and its sections as lists."""
    for block in re.split(r"\n\s*\n", docstring or ""):
        head, _, rest = block.partition("\n")
        name, colon, inline = head.partition(":")
        if colon and name in SECTIONS:
            yield f"**{name}**{': ' + _plain(inline.strip()) if inline.strip() else ''}"
            yield from _items(textwrap.dedent(rest)) if rest else ()
        else:
            yield _code_or_text(block)


def _items(text: str) -> Iterator[str]:
    """`name: description` entries, continued on indented lines, perhaps below a line with a colon; or a paragraph."""
    entries = re.split(r"\n(?=\S)", text)
    if entries[0].endswith(":"):
        yield _plain(entries.pop(0))
    if not all(re.match(r"[\w*`.\[\]]+(, [\w*`.\[\]]+)*: ", entry) for entry in entries):
        yield _plain("\n".join(entries))
        return
    made = []
    for entry in entries:
        name, _, description = " ".join(entry.split()).partition(": ")
        made.append(f"- `{name}`: {_plain(description)}")
    yield "\n".join(made)


def _code_or_text(block: str) -> str:
    """Equations and examples stand indented or hold ` = ` or ` <- ` early in a line; steps are numbered."""
    lines = block.splitlines()
    formula = all(re.match(r"\s{2,}\S|[\w.,()\[\] +-]{1,30}\s(=|<-)\s|\s*>>>", line) for line in lines)
    steps = re.split(r"\n(?=\d\. )", block)
    return f"```text\n{textwrap.dedent(block)}\n```" if formula else "\n".join(map(_plain, steps))


def _plain(text: str) -> str:
    """Prose whose stars, brackets and dollars mean themselves; `code` stays code."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else PLAIN.sub(r"\\\g<0>", part) for part in parts)
