"""Fixtures of the course's own checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from testcases.engine import evaluate
from testcases.engine.stubs import all_stubs


@pytest.fixture(scope="session")
def stub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of the untouched stubs."""
    folder = tmp_path_factory.mktemp("student") / "tutorial"
    for path, text in all_stubs().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="session")
def stubs(stub_folder: Path) -> evaluate.LocalEvaluator:
    return evaluate.student(stub_folder)
