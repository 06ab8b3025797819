"""Run lesson 11's trainer under DeepSpeed's ZeRO-2 on the CPU: python -m testcases.course.zero

DeepSpeed gets an environment of its own, .venv-zero, because Accelerate and transformers import it wherever it is, and
because it compiles a library at its first start. It takes a few minutes, once.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-zero" / "bin" / "python"


def main() -> int:
    """Install what is missing, then run the tests; returns their exit status."""
    if not PYTHON.exists():
        venv.create(PYTHON.parents[1], with_pip=True, clear=True)
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "-c", "requirements.lock"]
    subprocess.run([*pip, ".[course,test,deepspeed]"], cwd=ROOT, env=os.environ | {"DS_BUILD_OPS": "0"}, check=True)
    tests = [PYTHON, "-m", "pytest", "testcases/course/scaling_test.py", "-k", "zero", "--subject=solutions", "-rs"]
    return subprocess.run(tests, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
