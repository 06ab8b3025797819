"""Which runs the contest consists of, and where each ends. The gold reward is seen here alone, after the training."""

import hashlib
import json
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from ppo_by_hand.core.files import write_text
from ppo_by_hand.core.shapes import is_stop
from ppo_by_hand.core.texts import make_scorer
from tiny_models import checkpoints
from tiny_models.gold import gold_score, is_well_formed
from tiny_models.language import sample_prompts
from tiny_models.tokenizer import build_tokenizer

from ..demo.run import ppo_config
from ..demo.stages import annotated_pairs, train_reward_stage
from ..lesson12_capstone import evaluate_policy
from ..lesson13_after_ppo import expected_best_of_n
from .loop import PRESET, Job, World, sample
from .methods import METHODS, RESPONSES, texts_of

SFT, BEST_OF_N = "SFT", "best of n"
EVALUATION_PROMPTS = 512
MOST, COUNTS, PROMPTS_OF_BEST = 32, (1, 2, 4, 8, 16, 32), 256
"""Responses to each prompt from which the best of n is taken, the n, and how many prompts."""
ANSWERS = 1000
"""What best of n costs is given for so many answers."""


def curves(seeds: int) -> list[Job]:
    """List, seed by seed, SFT, best of n, and each method with each coefficient; of one seed with the middle one."""
    jobs = []
    for seed in range(seeds):
        jobs += [Job(SFT, seed, 0.0, 0, 0.0), *(Job(BEST_OF_N, seed, 0.0, 0, n) for n in COUNTS)]
        for name, method in METHODS.items():
            values = method.coefficients if seeds > 1 else (method.middle,)
            jobs += [Job(name, seed, method.learning_rate, method.epochs, value) for value in values]
    return jobs


def results_file(out: Path, lessons: Path) -> Path:
    """Return where the runs of these lessons are kept; when a lesson changes, this is another file."""
    code = b"".join(file.read_bytes() for file in sorted(lessons.glob("lesson*/*.py")))
    return out / f"results-{hashlib.sha256(code).hexdigest()[:16]}.json"


def read_results(file: Path) -> dict[Job, dict[str, Any]]:
    rows = json.loads(file.read_text("utf-8")) if file.is_file() else []
    return {Job(*(row[name] for name in Job._fields)): row for row in rows}


def run_all(jobs: Sequence[Job], file: Path) -> list[dict[str, Any]]:
    """Return the rows of all jobs. Those that the file has are not run again, and each one is kept at once."""
    found, world = read_results(file), None
    with tqdm(jobs, "contest", unit="run", disable=False) as bar:
        for job in bar:
            bar.set_postfix_str(f"{job.method}, seed {job.seed}")
            if job in found:
                continue
            if world is None or world.seed != job.seed:
                world = make_world(job.seed)
            found |= {job: job._asdict() | row for job, row in run(job, world).items()}
            write_text(file, "[\n" + ",\n".join(map(json.dumps, found.values())) + "\n]\n")
    return [found[job] for job in jobs]


def make_world(seed: int) -> World:
    tokenizer, sft = build_tokenizer(), AutoModelForCausalLM.from_pretrained(checkpoints.SFT).eval()
    reward_model = train_reward_stage(sft, PRESET, tokenizer, seed).reward_model
    pairs, *_ = annotated_pairs(sft, PRESET, tokenizer, seed)
    prompts = sample_prompts(RESPONSES, random.Random(10_000 + seed))
    others = sample_prompts(EVALUATION_PROMPTS, random.Random(20_000 + seed))
    own = pairs[PRESET.held_out_pairs :]
    return World(seed, tokenizer, sft, reward_model, make_scorer(reward_model), own, prompts, others)


def run(job: Job, world: World) -> dict[Job, dict[str, float]]:
    """Return where a job ends and what it cost, in tokens and in seconds of the processor; of best of n for all n."""
    began = time.process_time()
    if job.method == SFT:
        return {job: evaluate(world.sft, world)}
    if job.method == BEST_OF_N:
        found = best_of_n(world)
        each = (time.process_time() - began) / (PROMPTS_OF_BEST * MOST) * ANSWERS
        return {job._replace(coefficient=n): {"seconds": round(n * each, 2), **row} for n, row in found.items()}
    tokens, policy = METHODS[job.method].run(world, job)
    return {job: {"tokens": tokens, "seconds": round(time.process_time() - began, 2), **evaluate(policy, world)}}


def evaluate(policy: Any, world: World) -> dict[str, float]:
    """Sample a response to each of the seed's evaluation prompts; the proxy is the seed's reward model."""
    config = ppo_config(PRESET, world.tokenizer, world.seed, kl_coef=0.0)
    found = evaluate_policy(policy, world.sft, world.proxy, world.evaluation_prompts, world.tokenizer, config)
    return {what: round(getattr(found, what), 5) for what in ("gold", "proxy", "kl", "valid")}


def best_of_n(world: World) -> dict[int, dict[str, float]]:
    """Evaluate the best of n SFT responses by proxy, for each of COUNTS, and count the tokens of ANSWERS answers.

    The KL is log n - (n - 1) / n, which is exact where no response is drawn twice and an upper bound elsewhere. Here
    the two agree to four digits, because no single response is likely.
    """
    prompts = [prompt for prompt in world.evaluation_prompts[:PROMPTS_OF_BEST] for _ in range(MOST)]
    rollout = sample(world, world.sft, prompts, world.generator())
    stopped = is_stop(rollout.responses, (world.tokenizer.eos_token_id,)).any(dim=1).tolist()
    texts = texts_of(world, rollout)
    valid = [float(is_well_formed(text) and stop) for text, stop in zip(texts, stopped, strict=True)]
    gold = [ok and gold_score(prompt, text) for prompt, text, ok in zip(prompts, texts, valid, strict=True)]
    columns = torch.tensor([gold, rollout.scores.tolist(), valid]).double().view(3, -1, MOST)
    order = rollout.scores.view(-1, MOST).argsort(dim=1)
    means = columns.gather(2, order.expand(3, -1, -1)).mean(dim=1)  # of each rank, the worst first
    found = {}
    for n in COUNTS:
        numbers = dict(zip(("gold", "proxy", "valid"), (means @ shares_of_ranks(n)).tolist(), strict=True))
        numbers["kl"] = math.log(n) - (n - 1) / n
        numbers["tokens"] = rollout.mask.sum().item() / len(prompts) * n * ANSWERS
        found[n] = {what: round(number, 5) for what, number in numbers.items()}
    return found


def shares_of_ranks(n: int) -> torch.Tensor:
    """Return how often each of MOST responses, the worst first, is the best of n: lesson 13's estimator on 0 and 1."""
    steps = torch.ones(MOST, MOST, dtype=torch.float64).triu()
    at_least = expected_best_of_n(steps, n)  # the best is this rank or a higher one
    return at_least - torch.cat([at_least[1:], at_least.new_zeros(1)])
