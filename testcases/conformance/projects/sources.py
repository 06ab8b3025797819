"""The sources of other projects, fetched at their pins; functions and blocks are cut out and run as they are.

Nothing of a project is kept here. `fetch` fills a folder: a wheel from the package index, a repository at its commit.
"""

import __future__

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PINS = tomllib.loads((Path(__file__).parent / "projects.toml").read_text())
ANNOTATIONS = __future__.annotations.compiler_flag


def fetch(key: str, folder: Path) -> Path:
    """The sources of a project in `folder`/key, fetched unless they are there."""
    pin, place = PINS[key], folder / key
    if "wheel" in pin and not place.is_dir():
        wheels = folder / "wheels" / key
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", pin["wheel"]]
        subprocess.run([*command, "-d", str(wheels)], check=True, stderr=subprocess.DEVNULL)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            wheel.extractall(place)
    elif not place.exists():
        raise FileNotFoundError(
            f"{key}: expected a checkout of {pin['repository']} at {pin['commit']} in {place}; "
            f"git clone https://github.com/{pin['repository']} {place} && git -C {place} checkout {pin['commit']}"
        )
    return place


@dataclass(frozen=True)
class Sources:
    """The files of one project, with `edits` made in their text: file -> pairs of old and new."""

    key: str
    place: Path
    edits: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)

    def text(self, file: str) -> str:
        """A file as it is at the pin, edited."""
        text = self._text(file)
        for old, new in self.edits.get(file, ()):
            if old not in text:
                raise ValueError(f"{file} has no {old!r}")
            text = text.replace(old, new)
        return text

    def _text(self, file: str) -> str:
        """Of a checkout, what git has at the commit."""
        pin = PINS[self.key]
        if "wheel" in pin:
            return (self.place / pin.get("inside", "") / file).read_text()
        show = ["git", "-C", str(self.place), "show", f"{pin['commit']}:{file}"]
        return subprocess.run(show, check=True, capture_output=True, text=True).stdout

    def cut(self, file: str, *names: str, **given: Any) -> dict[str, Any]:
        """The functions and classes `names` of a file, or Class.method, without decorators; `given`: their globals."""
        tree = ast.parse(self.text(file))
        for name in names:
            found = _found(tree, name)
            found.decorator_list = []
            code = compile(ast.Module([found], []), file, "exec", flags=ANNOTATIONS, dont_inherit=True)
            exec(code, given)
        return given

    def block(self, file: str, function: str, first: str, last: str) -> Callable[..., dict[str, Any]]:
        """The statements of a function (or "", the file) from the one that begins with `first` to that with `last`."""
        text = self.text(file)
        for node in ast.walk(_found(ast.parse(text), function)):
            body = getattr(node, "body", None)
            starts = [(ast.get_source_segment(text, one) or "") for one in body] if isinstance(body, list) else []
            at = [i for i, start in enumerate(starts) if start.startswith(first)]
            if at and (to := [i for i, start in enumerate(starts) if start.startswith(last) and i >= at[0]]):
                code = compile(ast.Module(body[at[0] : to[0] + 1], []), file, "exec")
                return lambda **names: (exec(code, names), names)[1]
        raise ValueError(f"{file} has no {first!r} to {last!r} in {function}")


def _found(tree: ast.AST, name: str) -> Any:
    for part in filter(None, name.split(".")):
        body = {getattr(one, "name", ""): one for one in ast.iter_child_nodes(tree)}
        tree = body[part]
    return tree
