"""The floor: floating-point operations that an update needs, over the rate at which the machine multiplies matrices."""

import time

import torch

from .workload import Workload

MATRIX_SIZE = 1024


def update_operations(work: Workload) -> dict[str, float]:
    """Floating-point operations of the matrix products of one update, by phase; a multiply-add counts as two.

    Each token of a body costs 24 width^2 in each layer (query, key, value, output and an MLP of 4 x width); each
    pair of a token and one it attends to costs 4 x width in each layer; each position whose distribution is wanted
    costs 2 x width x vocabulary. A backward pass costs twice the forward. The last response token is read only by the
    reward model; the others have nothing more to predict.
    """
    read, scored = work.prompt + work.response - 1, work.prompt + work.response
    body, head = _body(work, read), 2 * work.response * work.n_embd * work.vocab_size
    language_model = work.batch * (body + head)
    critic, reward_model = work.batch * body, work.batch * _body(work, scored)
    return {
        "generation": language_model,
        "scoring": language_model + critic + reward_model,
        "update": 3 * work.epochs * (language_model + critic),
    }


def _body(work: Workload, length: int) -> float:
    """One row of `length` tokens through all layers; a token attends to itself and to those before it."""
    pairs = length * (length + 1) / 2
    return work.n_layer * (24 * length * work.n_embd**2 + 4 * pairs * work.n_embd)


def matrix_rate(threads: int, device: str = "cpu", dtype: torch.dtype = torch.float32, repeats: int = 60) -> float:
    """Operations in a second that the machine reaches on large square matrices: the best of several tries."""
    torch.set_num_threads(threads)
    size = MATRIX_SIZE if device == "cpu" else 8 * MATRIX_SIZE
    return _rate(size, size, size, device, dtype, repeats)


def model_rate(work: Workload, repeats: int = 300) -> float:
    """The same for the largest product of the workload itself: a minibatch times the MLP's first weight."""
    torch.set_num_threads(work.threads)
    tokens = work.minibatch * (work.prompt + work.response)
    return _rate(tokens, work.n_embd, 4 * work.n_embd, "cpu", torch.float32, repeats)


def _rate(rows: int, inner: int, columns: int, device: str, dtype: torch.dtype, repeats: int) -> float:
    left = torch.randn(rows, inner, device=device, dtype=dtype)
    right = torch.randn(inner, columns, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(repeats):
        _finish(device)
        start = time.perf_counter()
        left @ right
        _finish(device)
        best = min(best, time.perf_counter() - start)
    return 2 * rows * inner * columns / best


def _finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
