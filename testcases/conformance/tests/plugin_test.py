"""The marker: one test of each case."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_one_test_is_a_case(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_xfail = masked-mean-one-token-01\n")
    (tmp_path / "test_mine.py").write_text(
        "import pytest\n"
        "from testcases.conformance.ppo_conformance.slow import masked_mean\n"
        '@pytest.mark.conforms("masked_mean", framework="list", not_supported=["empty rows"])\n'
        "def test_mean(conformance):\n"
        "    conformance(lambda values, mask: masked_mean(values, mask) + (sum(map(sum, mask)) == 1))\n"
        '@pytest.mark.conforms("means")\n'
        "def test_means(conformance):\n    conformance(masked_mean)\n"
    )
    plugin = "testcases.conformance.ppo_conformance.plugin"
    command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    for shown in ("1 failed, 8 passed, 1 skipped, 1 xfailed", "expected an operation, got 'means'"):
        assert shown in done.stdout, done.stdout
