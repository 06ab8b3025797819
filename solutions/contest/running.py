"""Which runs the contest consists of; each is kept as soon as it is there, and the same command goes on from it."""

import json
import time
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ppo_by_hand.core.files import write_json

from .evaluation import ANSWERS, COUNTS, MOST, PROMPTS_OF_BEST, best_of_n, evaluate
from .methods import METHODS
from .world import RESPONSES, Job, World, make_world

SFT, BEST_OF_N = "SFT", "best of n"
TUNING_SEEDS, EPOCHS = (1000, 1001), (1, 2)
"""These seeds are never used again."""
MAX_KL = 5.0
"""Settings whose policy is farther from the SFT model than this are not chosen."""
TRACE_EVERY, TRACE_PROMPTS = RESPONSES // 8, 256
Tuned = tuple[float, int]
"""Learning rate and epochs."""


def tuning() -> list[Job]:
    """List every candidate of every method, with each tuning seed."""
    return [
        Job(name, seed, rate, epochs, method.middle)
        for seed, (name, method) in product(TUNING_SEEDS, METHODS.items())
        for rate, epochs in product(method.rates, EPOCHS)
    ]


def choose(found: Mapping[Job, Mapping[str, Any]]) -> dict[str, Tuned]:
    """Choose for each method the candidate with the highest proxy reward within MAX_KL of the SFT model.

    Means over the tuning seeds. Where all are farther, the nearest one. The gold reward is not looked at.
    """
    chosen = {}
    for name, method in METHODS.items():
        ranks = {}
        for tuned in product(method.rates, EPOCHS):
            ends = [found[Job(name, seed, *tuned, method.middle)] for seed in TUNING_SEEDS]
            proxy, kl = (sum(end[what] for end in ends) / len(ends) for what in ("proxy", "kl"))
            ranks[tuned] = (True, proxy) if kl <= MAX_KL else (False, -kl)
        chosen[name] = max(ranks, key=lambda tuned: ranks[tuned])
    return chosen


def curves(chosen: Mapping[str, Tuned], seeds: int) -> list[Job]:
    """List, seed by seed, the SFT model, best of n, and the chosen settings with each coefficient.

    One seed is a first look, with the middle coefficient alone.
    """
    jobs = []
    for seed in range(seeds):
        jobs += [Job(SFT, seed, 0.0, 0, 0.0), *(Job(BEST_OF_N, seed, 0.0, 0, n) for n in COUNTS)]
        for name, method in METHODS.items():
            values = method.coefficients if seeds > 1 else (method.middle,)
            jobs += [Job(name, seed, *chosen[name], value) for value in values]
    return jobs


def results_file(out: Path, code: str) -> Path:
    """Return where the runs of these lessons are kept; other lessons have another code, and so another file."""
    return out / f"results-{code}.json"


def read_results(file: Path) -> dict[Job, dict[str, Any]]:
    rows = json.loads(file.read_text("utf-8")) if file.is_file() else []
    return {job_of(row): row for row in rows}


def job_of(row: Mapping[str, Any]) -> Job:
    return Job(*(row[name] for name in Job._fields))


def run_all(jobs: Iterable[Job], file: Path, what: str) -> list[dict[str, Any]]:
    """Return the rows of all jobs; run only those that the file doesn't have, and keep a world while its seed lasts."""
    jobs, found, world = list(jobs), read_results(file), None
    with tqdm(jobs, what, unit="run", disable=False) as bar:
        for job in bar:
            bar.set_postfix_str(f"{job.method}, seed {job.seed}")
            if job in found:
                continue
            if world is None or world.seed != job.seed:
                world = make_world(job.seed)
            found |= {job_of(row): row for row in run(job, world)}
            write_json(file, list(found.values()))
    return [found[job] for job in jobs]


def run(job: Job, world: World) -> list[dict[str, Any]]:
    """Return where a job ends and what it cost; with the middle coefficient also where it was on the way.

    Seconds are those of the processor, without the looks on the way. Best of n is one run for all n.
    """
    if job.method == SFT:
        return [job._asdict() | evaluate(world.sft, world)]
    began, looking, trace = time.process_time(), 0.0, []
    if job.method == BEST_OF_N:
        found = best_of_n(world)
        each = (time.process_time() - began) / (PROMPTS_OF_BEST * MOST) * ANSWERS
        return [job._asdict() | {"coefficient": n, "seconds": round(n * each, 2), **row} for n, row in found.items()]
    is_traced = job.coefficient == METHODS[job.method].middle and job.seed not in TUNING_SEEDS
    for responses, tokens, policy in METHODS[job.method].run(world, job):
        start = time.process_time()
        if is_traced and responses % TRACE_EVERY == 0:
            trace.append({"tokens": tokens, **evaluate(policy, world, TRACE_PROMPTS)})
        looking += time.process_time() - start
    end = {"tokens": tokens, "seconds": round(time.process_time() - began - looking, 2), **evaluate(policy, world)}
    return [job._asdict() | end | ({"trace": trace} if trace else {})]
