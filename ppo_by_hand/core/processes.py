"""Lesson 11: communication between the processes of one run."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, gather_object
from torch import Tensor

Thing = TypeVar("Thing")


class Processes:
    """The processes of one run, as `accelerate launch` has started them; there may be only one.

    Each method that talks to the others must be called by all of them, in the same order.

    Attributes:
        count: how many.
        index: which one this is, from 0.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self.count: int = accelerator.num_processes
        self.index: int = accelerator.process_index

    @property
    def is_first(self) -> bool:
        """True in the one process that writes files."""
        return self.index == 0

    def share(self, things: Sequence[Thing]) -> list[Thing]:
        """Return this process's part of a list: consecutive items, for the first processes perhaps one more."""
        size, larger = divmod(len(things), self.count)
        start = self.index * size + min(self.index, larger)
        return list(things[start : start + size + (self.index < larger)])

    def seed(self, seed: int, update: int) -> int:
        """Return this process's seed for sampling in one update: another in each process, the same in a resumed run."""
        return random.Random(f"{seed}, update {update}, process {self.index}").getrandbits(63)

    def collect(self, things: list[Thing]) -> list[Thing]:
        """Join the lists of all processes to one list, in their order. Tensors should be on the CPU."""
        with self.connected():
            found: list[Thing] = gather_object(things)
            return found

    def check_same(self, settings: Mapping[str, object]) -> None:
        """Refuse other settings in another process: all would go on with updates that belong to none of them."""
        each = self.collect([settings])
        for name, own in settings.items():
            if others := [other[name] for other in each if other[name] != own]:
                raise ValueError(f"expected the same settings in each process, got {name} {own!r} and {others[0]!r}")

    def gather(self, tensor: Tensor) -> Tensor:
        """Gather the tensors of all processes, (...) -> (N, ...); the shape must be the same in each."""
        return torch.stack(self.collect([tensor.cpu()])).to(tensor.device)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let this block fail in all processes if it fails in one: otherwise the others would wait for it forever.

        Where nothing was wrong it's a RuntimeError; the process that failed raises its own error.
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        reports = self.collect([None if failure is None else f"{type(failure).__name__}: {failure}"])
        if failure is not None:
            raise failure
        for process, report in enumerate(reports):
            if report is not None:
                raise RuntimeError(f"process {process} of {self.count} failed, so all stop: {report}")

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Explain a connection that breaks inside this block, by a RuntimeError: another process has gone."""
        try:
            yield
        except RuntimeError as error:
            if self.count == 1 or not _is_broken_connection(error):
                raise
            raise RuntimeError(
                f"process {self.index} of {self.count} has lost another process: it was killed, or the network broke; "
                "look for the first message above, and resume from the last checkpoint"
            ) from error

    def leave(self) -> NoReturn:
        """End this process, with success, once all have reached this line: the last one of a script for several.

        It ends at once, without Python's own shutdown: there gloo's threads may still release tensors, and the process
        could abort or wait forever (pytorch/pytorch#190489). Open files are not flushed.
        """
        if self.count == 1:
            sys.exit(0)
        with self.connected():
            self._accelerator.wait_for_everyone()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def check_configuration(accelerator: Accelerator, is_alone: bool = False) -> None:
    """Refuse settings of `accelerate launch` that would silently not take effect.

    Raises:
        ValueError: there are any; or, with `is_alone`, there are several processes, or DeepSpeed.
    """
    found, steps = accelerator.distributed_type, accelerator.gradient_accumulation_steps
    started = int(os.environ.get("WORLD_SIZE", 1)) if "LOCAL_RANK" in os.environ else 1
    if started > 1 and accelerator.num_processes == 1:
        raise ValueError(
            f"expected Accelerate to join the {started} processes that were started, got one that trains by itself; on "
            "a CPU set ACCELERATE_USE_CPU=true, because accelerate launch --cpu would start one process"
        )
    for engine in (DistributedType.DEEPSPEED, DistributedType.FSDP):
        if os.environ.get(f"ACCELERATE_USE_{engine.value}", "").lower() == "true" and found != engine:
            raise ValueError(
                f"expected {engine.value}, which the configuration asks for, got {found.value}: Accelerate leaves it "
                "out on this device or with this number of processes, and would train whole models; use ddp.yaml"
            )
    if found == DistributedType.FSDP and accelerator.state.fsdp_plugin.fsdp_version != 2:
        raise ValueError(
            "expected FSDP of version 2, whose weights can be gathered for a rollout, got version 1; set "
            "fsdp_version: 2 in the configuration, as in fsdp.yaml"
        )
    if steps != 1:
        raise ValueError(
            f"expected gradient_accumulation_steps 1 in the configuration, got {steps}, by which Accelerate would "
            "divide each gradient; leave it out and set micro_batch_size, which adds them up to the minibatch's"
        )
    if accelerator.mixed_precision == "fp16":
        raise ValueError("expected mixed_precision bf16 or no, got fp16, in which gradients overflow; use bf16")
    if is_alone and (accelerator.num_processes > 1 or found == DistributedType.DEEPSPEED):
        raise ValueError(
            f"expected one process and no DeepSpeed, got {accelerator.num_processes} under {found.value}; use "
            "DistributedPPOTrainer of lesson 11"
        )


def _is_broken_connection(error: RuntimeError) -> bool:
    """Gloo raises a plain RuntimeError that names its own source file; NCCL has its own class."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)
