"""ppo-conform my_module:gae --as gae_response"""

from __future__ import annotations

import argparse
import importlib
import json
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
        return _run(_parser().parse_args(arguments))
    except (ValueError, ImportError) as error:
        print(f"ppo-conform: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ppo-conform", description="Hold a function against the cases of an operation."
    )
    parser.add_argument("function", nargs="?", help="module:function, or path/file.py:function")
    parser.add_argument("--as", dest="operation", help="the operation; without a function: its rule and conventions")
    parser.add_argument("--convention", action="append", default=[], help="declare one, such as dual_clip=3")
    parser.add_argument("--not-supported", action="append", default=[], help="leave these cases out, such as gaps")
    parser.add_argument("--framework", default="", help="torch, numpy or list")
    parser.add_argument("--dtype", default="float64", help="float64 or float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--case", help="show a case by its id")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.case:
        print(_case(options.case))
        return 0
    if not options.function:
        print(_operation(options.operation) if options.operation else "\n".join(_line(name) for name in operations()))
        return 0
    if not options.operation:
        raise ValueError(f"expected --as and an operation; there are {', '.join(operations())}")
    report = check(
        _load(options.function),
        options.operation,
        conventions=options.convention,
        not_supported=options.not_supported,
        framework=options.framework,
        dtype=options.dtype,
        device=options.device,
    )
    print(json.dumps(report.to_dict(), indent=2) if options.json else report)
    return 0 if report.outcome == AGREES else 1


def _load(place: str) -> Callable[..., Any]:
    module, colon, name = place.rpartition(":")
    if not colon:
        raise ValueError(f"expected module:function, got {place!r}")
    sys.path.insert(0, str(Path(module).parent if module.endswith(".py") else Path.cwd()))
    found: Any = importlib.import_module(Path(module).stem if module.endswith(".py") else module)
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
    lines = [
        _line(name),
        f"arguments  {of.arguments}",
        f"returns    {', '.join(of.returns)}",
        f"source     {of.source}",
    ]
    lines += [f"may be left out: {', '.join(needs)}"] if needs else []
    lines += [f"convention {one.name}: {one.says} ({one.quoted['place']})" for one in variants(name) if one.quoted]
    return "\n".join(lines)


def _case(id: str) -> str:
    for name in operations():
        for case in operation(name).cases:
            if case.id == id:
                lines = [f"{case.id} · {case.name} · {case.situation}"]
                lines += [f"  {key} = {value}" for key, value in case.arguments.items()]
                lines += [f"  expected {key} = {value}" for key, value in case.expected.items()]
                lines += [f"  gradient {case.gradient}"] if case.gradient else []
                return "\n".join([*lines, f"  {case.why}"])
    raise ValueError(f"there is no case {id!r}")


if __name__ == "__main__":
    sys.exit(main())
