"""What pyproject.toml asks for and this interpreter lacks, one requirement to a line.

    python -m testcases.benchmarks.lacking

An interpreter that brings a torch for its own GPU keeps it, whatever the lock file says.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

EXTRAS = ("course", "benchmarks")


def lacking() -> list[str]:
    """The requirements that are missing or too old."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    return [one for one in wanted if not _is_there(*one.split(">="))]


def _is_there(name: str, lowest: str) -> bool:
    try:
        return _numbers(version(name)) >= _numbers(lowest)
    except PackageNotFoundError:
        return False


def _numbers(version: str) -> list[int]:
    """2.13.0+cu130 -> [2, 13, 0]"""
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])][:3]


if __name__ == "__main__":
    print(*lacking(), sep="\n")
