"""Kernels that need not load torch: forks of the process in which it is, with no line of a notebook run."""

import os
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import matplotlib.figure  # pyplot is for the kernel to load: it is then told where figures go
from ipykernel.kernelapp import launch_new_instance
from jupyter_client.manager import AsyncKernelManager
from transformers import AutoModelForCausalLM, GPT2LMHeadModel, PreTrainedTokenizerFast  # noqa: F401

from testcases.grader.tests.forks import FORKED


class ForkedKernels(AsyncKernelManager):
    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
        # No daemon: a notebook may start processes of its own.
        process = FORKED.Process(target=_be_kernel, args=(kernel_cmd[2:], options["cwd"], options["env"]))
        process.start()
        self.provisioner.process = SimpleNamespace(
            pid=process.pid,
            poll=lambda: process.exitcode,
            wait=process.join,
            send_signal=lambda number: os.kill(process.pid, number),
            **dict.fromkeys(("stdin", "stdout", "stderr")),
        )
        self._reconcile_connection_info(self.provisioner.connection_info)


def _be_kernel(argv: Sequence[str], folder: str, environment: dict[str, str]) -> None:
    matplotlib.use("module://matplotlib_inline.backend_inline")  # a kernel says so before anything loads matplotlib
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, "")
    sys.argv = [*argv, f"--IPKernelApp.parent_handle={os.getppid()}"]  # with which it ends
    launch_new_instance()
