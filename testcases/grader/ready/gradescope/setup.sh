#!/usr/bin/env bash
# Builds the image, once: the only moment with a network. Python is 3.11 or newer; Ubuntu 22.04 has it beside its own.
# PyPI's torch brings two gigabytes of CUDA: name PyTorch's CPU index in PIP_EXTRA_INDEX_URL here to save them.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends bubblewrap make python3 python3-venv
python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  apt-get install -y --no-install-recommends python3.11 python3.11-venv
  python=python3.11
fi
# The Python of the course lies apart from the solutions, which nobody but root can read.
make -C /autograder/source/course setup PYTHON="$python" VENV=/autograder/venv
chmod -R go-rwx /autograder/source
