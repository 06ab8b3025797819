"""Why the bare passes are not at the floor: what kind of operation their time goes to."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.profiler import ProfilerActivity, profile

from .run_bare import BarePasses
from .workload import Workload

KINDS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm"),
    "attention": ("aten::_scaled_dot_product",),
    "activation": ("aten::gelu", "aten::tanh", "aten::pow"),
    "layer norm": ("aten::native_layer_norm",),
    "optimizer": ("aten::_fused_adamw_", "Optimizer"),
}
REST, PYTHON = "other tensor operations", "Python between operations"


def anatomy(work: Workload, updates: int = 3) -> dict[str, float]:
    """Seconds of one bare update in each kind of operation, and in the Python between them, on one thread.

    The profiler lengthens everything; its shares are applied to the CPU time of an update without it.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        passes = BarePasses(work)
        passes.update()
        start = time.process_time()
        for _ in range(updates):
            passes.update()
        whole = (time.process_time() - start) / updates
        with _in_silence(), profile(activities=[ProfilerActivity.CPU]) as recorded:
            start = time.process_time()
            for _ in range(updates):
                passes.update()
            under_profiler = time.process_time() - start
    finally:
        torch.set_num_threads(threads)
    spent = dict.fromkeys((*KINDS, REST), 0.0)
    for event in recorded.key_averages():
        spent[_kind(event.key)] += event.self_cpu_time_total / 1e6
    spent[PYTHON] = max(under_profiler - sum(spent.values()), 0.0)
    return {kind: whole * seconds / sum(spent.values()) for kind, seconds in spent.items()}


@contextmanager
def _in_silence() -> Iterator[None]:
    """The profiler writes to the descriptor itself when it starts and stops."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _kind(operation: str) -> str:
    return next((kind for kind, names in KINDS.items() if operation.startswith(names)), REST)
