"""ppo-conform my_module:gae --as gae_response"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .cases import operation, operations
from .checking import check, variants
from .report import AGREES


def main(arguments: Sequence[str] | None = None) -> int:
    """0: it agrees; 1: it does not; 2: the question cannot be asked."""
    try:
        text, code = _answer(_parser().parse_args(arguments))
        print(text, flush=True)
    except BrokenPipeError:  # whoever read this, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except (ValueError, ImportError) as error:
        print(f"ppo-conform: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ppo-conform", description="Hold a function against an operation's cases.")
    parser.add_argument("function", nargs="?", help="module:function, or path/file.py:function")
    parser.add_argument("--as", dest="operation", help="the operation; without a function: its rule and conventions")
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--convention", dest="conventions", **several, help="declare one, such as dual_clip=3")
    parser.add_argument("--not-supported", **several, help="leave these cases out, such as gaps")
    parser.add_argument("--framework", default="", help="torch, numpy or list")
    parser.add_argument("--dtype", default="float64", help="float64 or float32")
    parser.add_argument("--case", help="show a case by its id")
    return parser


def _answer(options: argparse.Namespace) -> tuple[str, int]:
    if options.case:
        return _case(options.case), 0
    if not options.function:
        return _operation(options.operation) if options.operation else "\n".join(map(_line, operations())), 0
    if not options.operation:
        raise ValueError(f"expected --as and an operation; there are {', '.join(operations())}")
    asked = {name: getattr(options, name) for name in ("conventions", "not_supported", "framework", "dtype")}
    report = check(_load(options.function), options.operation, **asked)
    return str(report), 0 if report.outcome == AGREES else 1


def _load(place: str) -> Callable[..., Any]:
    module, colon, name = place.rpartition(":")
    if not (colon and module and name):
        raise ValueError(f"expected module:function, got {place!r}")
    file = Path(module) if module.endswith(".py") else None
    if file and not file.is_file():
        raise ValueError(f"there is no file {module}")
    sys.path.insert(0, str(file.parent if file else Path.cwd()))
    try:
        found: Any = importlib.import_module(file.stem if file else module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{module} cannot be imported ({type(error).__name__}: {error})") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module} has no {name}")
        found = getattr(found, part)
    return found


def _line(name: str) -> str:
    of = operation(name)
    return f"{name:20} {len(of.cases):3} cases  {of.rule}"


def _operation(name: str) -> str:
    of = operation(name)
    needs = sorted({need for case in of.cases for need in case.needs})
    lines = [_line(name), f"arguments  {of.arguments}", f"returns    {', '.join(of.returns)}"]
    lines += [f"source     {of.source}"] + [f"may be left out: {', '.join(needs)}"] * bool(needs)
    lines += [f"convention {one.name}: {one.says} ({one.quoted['place']})" for one in variants(name) if one.quoted]
    return "\n".join(lines)


def _case(id: str) -> str:
    name = max((name for name in operations() if id.startswith(name.replace("_", "-"))), key=len, default="")
    if not name:
        raise ValueError(f"there is no case {id!r}")
    case = operation(name).case(id)
    lines = [f"{case.id} · {case.name} · {case.situation}"]
    lines += [f"  {key} = {value}" for key, value in case.arguments.items()]
    lines += [f"  expected {key} = {value}" for key, value in case.expected.items()]
    lines += [f"  gradient {case.gradient}"] if case.gradient else []
    return "\n".join([*lines, f"  {case.why}"])


if __name__ == "__main__":
    sys.exit(main())
