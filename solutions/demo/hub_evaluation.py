"""The preset `hub` while it trains: scores and samples of held-out prompts, the best policy so far, and a tracker."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor

from ppo_by_hand.core.checkpoints import global_generators
from ppo_by_hand.core.files import write_whole
from ppo_by_hand.core.run_log import Clock

from ..lesson08_rollout import generate
from ..lesson09_ppo_trainer import PPOTrainer
from .hub_actor_critic import merged, policy_to_save
from .journal import Journal
from .output import results, save_model

SAMPLES = 8
"""Rows of a table."""


class Sample(NamedTuple):
    """A held-out prompt and what the policy answers."""

    prompt: str
    response: str
    score: float


class HeldOut:
    """Evaluates the policy every few updates, and keeps the best one in `OUT/best`.

    Each evaluation draws the same random numbers, and leaves those of the training as they were.

    Args:
        prompt_ids: of the held-out prompts; none, and nothing happens.
        every: updates between two evaluations.
        out: the run's folder: `log/evaluations.jsonl` gets the scores, `samples/update-000010.md` a table.
        dtype: in which the best policy is saved.
        journal: remembers the scores for a resumed run.
        say: receives the mean score of each evaluation.
    """

    def __init__(
        self,
        prompt_ids: Sequence[list[int]],
        every: int,
        out: Path,
        dtype: torch.dtype,
        journal: Journal,
        say: Callable[[str], None],
    ) -> None:
        self.prompt_ids, self.every, self.out = prompt_ids, every, out
        self.dtype, self.journal, self.say = dtype, journal, say
        self.found: list[dict[str, float]] = []

    def start(self, trainer: PPOTrainer) -> None:
        """Take up what a run before had found, or evaluate the policy before its first update."""
        before = self.journal.facts.get("evaluations", [])
        self.found = [one for one in before if one["update"] <= trainer.updates_done]
        if self.prompt_ids and trainer.updates_done == 0 and not self.found:
            self(trainer)

    def __call__(self, trainer: PPOTrainer) -> None:
        """Evaluate if it is time; made for `on_update` of `PPOTrainer.train`, in every process."""
        is_time = trainer.updates_done % self.every == 0 or trainer.updates_done == trainer.config.num_updates
        if not self.prompt_ids or not is_time:
            return
        samples = evaluate(trainer, self.prompt_ids)
        score = sum(sample.score for sample in samples) / len(samples)
        is_best = trainer.updates_done > 0 and all(score > one["score"] for one in self.found if one["update"])
        self.found.append({"update": trainer.updates_done, "score": score})
        self.say(f"update {trainer.updates_done}: held-out score {score:.2f}{', the best so far' if is_best else ''}")
        best = policy_to_save(trainer) if is_best else None
        if not trainer.accelerator.is_main_process:
            return
        self.journal.record(evaluations=self.found)
        self._write(trainer.updates_done, samples)
        if best is not None:
            save_model(merged(copy.deepcopy(best), self.dtype), trainer.tokenizer, self.out / "best")

    def _write(self, update: int, samples: list[Sample]) -> None:
        scores, table = self.out / "log" / "evaluations.jsonl", self.out / "samples" / f"update-{update:06d}.md"
        lines = ["| score | prompt | response |", "|---|---|---|"]
        lines += [f"| {one.score:.2f} | {_cell(one.prompt)} | {_cell(one.response)} |" for one in samples[:SAMPLES]]
        with results(self.out, scores, table):
            for file, rows in ((scores, map(json.dumps, self.found)), (table, lines)):
                file.parent.mkdir(exist_ok=True)
                with write_whole(file) as unfinished:
                    unfinished.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def _cell(text: str) -> str:
    """One line of a table, whatever the text has in it."""
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())


@torch.no_grad()
def evaluate(trainer: PPOTrainer, prompt_ids: Sequence[list[int]]) -> list[Sample]:
    """Responses of the present policy to these prompts, with the scores that a rollout would have."""
    config, size = trainer.config, trainer.config.micro_rollout_batch_size or trainer.config.batch_size
    draw = torch.Generator(device=trainer.accelerator.device).manual_seed(config.seed)
    states = {name: source.get_state() for name, source in global_generators().items()}  # a reward may draw from them
    samples: list[Sample] = []
    whole = getattr(trainer, "whole_model", nullcontext)
    with trainer.accelerator.autocast(), whole():
        for start in range(0, len(prompt_ids), size):
            batch = prompt_ids[start : start + size]
            input_ids, visible = trainer.collector.encode(batch)
            responses, _, mask = generate(trainer.policy, input_ids, visible, **config.sampling(), generator=draw)
            rows, real = torch.cat([input_ids, responses], dim=1), torch.cat([visible, mask], dim=1)
            scores = trainer.score(rows, real, input_ids.shape[1], prompts=batch).tolist()
            prompts, answers = _texts(trainer, input_ids, visible), _texts(trainer, responses, mask)
            samples += [Sample(*sample) for sample in zip(prompts, answers, scores, strict=True)]
    for name, source in global_generators().items():
        source.set_state(states[name])
    return samples


def _texts(trainer: PPOTrainer, ids: Tensor, real: Tensor) -> list[str]:
    rows = [row[one].tolist() for row, one in zip(ids, real, strict=True)]
    return [trainer.tokenizer.decode(row, skip_special_tokens=True) for row in rows]


class Tracker:
    """One of the trackers that Accelerate knows, such as wandb, beside TensorBoard; made for `on_update`.

    Args:
        name: "" for none.
        out: the run's folder.
        settings: of the run, shown by the tracker.
    """

    def __init__(self, name: str, out: Path, settings: dict[str, Any]) -> None:
        self.accelerator = None
        self.clock = Clock()
        if not name:
            return
        self.accelerator = Accelerator(log_with=name, project_dir=out / "log")
        self.accelerator.init_trackers("ppo-by-hand", {key: str(value) for key, value in settings.items()})

    def __call__(self, trainer: PPOTrainer) -> None:
        """Hand on the metrics of the newest update."""
        if self.accelerator is not None:
            metrics = trainer.history[-1]
            speed = {"tokens_per_second": self.clock.per_second(metrics["response_tokens"])}
            self.accelerator.log(metrics | speed, step=trainer.updates_done)

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *error: object) -> None:
        if self.accelerator is not None:
            self.accelerator.end_training()
