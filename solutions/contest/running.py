"""Runs jobs one after the other, counts what each costs, and keeps every result on disk as soon as it is there."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import GPT2Model

from ..demo.folder import new_folder
from . import plan
from .evaluation import best_of_n, bound_of_kl, evaluate
from .plan import METHODS, Job
from .world import RESPONSES, World

FILE = "results.jsonl"
TRACE_EVERY, TRACE_PROMPTS = RESPONSES // 8, 256
BEST_OF_N_PROMPTS = 256
PRICED_N, PRICED_ANSWERS = 8, 1000
"""What best of n costs is given for so many answers."""


class Results:
    """What has been run so far, by key, in OUT/results.jsonl: the same command goes on where it was stopped."""

    def __init__(self, out: Path, code: str = "") -> None:
        """Results of other lessons than those of `code` are left where they are, and not taken."""
        self.file = out / FILE
        if not self.file.is_file():
            new_folder(out)
        lines = self.file.read_text("utf-8", errors="replace").splitlines() if self.file.exists() else []
        self.code = code
        self.found: dict[str, dict[str, Any]] = {}
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # a line that was not written to its end
                one = json.loads(line)
                if one.pop("code") == code:
                    self.found[one.pop("key")] = one

    def keep(self, key: str, result: dict[str, Any]) -> None:
        self.found[key] = result
        with self.file.open("a", encoding="utf-8") as file:
            file.write("\n" * (file.tell() > 0) + json.dumps({"key": key, "code": self.code, **result}))


def run_all(jobs: Iterable[Job], results: Results, done: Callable[[str], None], world: World | None = None) -> None:
    """Every job that has no result yet; a world is kept while its seed lasts."""
    world = world or World(-1)
    for job in jobs:
        if job.key not in results.found:
            if (world.seed, world.situation) != (job.seed, job.situation):
                world = World(job.seed, job.situation)
            results.keep(job.key, run(job, world))
        done(job.key)


def run(job: Job, world: World) -> dict[str, Any]:
    """One run: where it ends, what it cost; with the middle coefficient also where it was on the way."""
    method = METHODS[job.method]
    world.proxy, world.prompts, world.evaluation_prompts  # noqa: B018  made before the clock starts
    if job.method == "DPO, own pairs":
        world.pairs  # noqa: B018
    trace: list[dict[str, Any]] = []
    is_traced = job.settings.coefficient == method.middle and job.seed not in plan.TUNING_SEEDS
    with counted() as cost:

        def watch(responses: int, tokens: int, policy: Any) -> None:
            if is_traced and responses % TRACE_EVERY == 0:
                with cost.paused():
                    point = evaluate(policy, world, TRACE_PROMPTS).as_dict()
                    trace.append({"responses": responses, "tokens": tokens, **point})

        policy, sampled = method.run(world, job.settings, watch)
    found = {"end": evaluate(policy, world).as_dict(), "cost": {"sampled": sampled, **cost.as_dict()}}
    return found | ({"trace": trace} if trace else {})


def run_best_of_n(world: World) -> dict[str, Any]:
    """Its curve over n, the tokens that one sample costs at each request, and what PRICED_ANSWERS cost."""
    world.proxy, world.evaluation_prompts  # noqa: B018  made before the clock starts
    with counted() as cost:
        points, tokens = best_of_n(world, plan.COUNTS, BEST_OF_N_PROMPTS)
    curve = [
        {"n": n, "kl_bound": round(bound_of_kl(n), 5), **point.as_dict()}
        for n, point in zip(plan.COUNTS, points, strict=True)
    ]
    samples = BEST_OF_N_PROMPTS * max(plan.COUNTS)
    whole = {"sampled": tokens, **cost.as_dict()}
    priced = {what: round(one * PRICED_N * PRICED_ANSWERS / samples, 2) for what, one in whole.items()}
    return {"curve": curve, "tokens_per_answer": round(tokens / samples, 2), "cost": priced}


class Cost:
    """Token positions that went through a transformer, and seconds of the processor."""

    def __init__(self) -> None:
        self.without_gradient = self.trained = 0
        self.seconds = 0.0
        self._began: float | None = None

    def start(self) -> None:
        self._began = time.process_time()

    def stop(self) -> None:
        if self._began is not None:
            self.seconds += time.process_time() - self._began
        self._began = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Evaluations on the way cost nothing."""
        self.stop()
        yield
        self.start()

    def count(self, module: nn.Module, _: Any, output: Any) -> None:
        if self._began is None or not isinstance(module, GPT2Model):
            return
        rows, positions = output.last_hidden_state.shape[:2]
        if torch.is_grad_enabled() and any(one.requires_grad for one in module.parameters()):
            self.trained += rows * positions
        else:
            self.without_gradient += rows * positions

    def as_dict(self) -> dict[str, float]:
        seconds = round(self.seconds, 2)
        return {"forward": self.without_gradient, "forward_backward": self.trained, "seconds": seconds}


@contextmanager
def counted() -> Iterator[Cost]:
    """Counts the passes of every transformer inside."""
    cost = Cost()
    handle = nn.modules.module.register_module_forward_hook(cost.count)
    cost.start()
    try:
        yield cost
    finally:
        cost.stop()
        handle.remove()
