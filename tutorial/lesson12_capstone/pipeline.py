"""The whole of RLHF in one call: SFT, reward model, PPO with and without the KL price, evaluation, figures."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from tiny_models.gold import GOLD_MAX
from tiny_models.language import sample_prompts
from tiny_models.presets import Preset, find_preset
from tiny_models.tokenizer import build_tokenizer

from ..lesson09_ppo_trainer import CheckpointFolder, PPOConfig, PPOTrainer, make_scorer
from ..lesson09_ppo_trainer.checkpoints import updates_done
from ..lesson09_ppo_trainer.scoring import Scorer
from .evaluation import Evaluation, evaluate_policy
from .journal import FOLDER, Journal
from .stages import (
    PPOResult,
    RewardModelResult,
    SFTResult,
    load_reward_stage,
    load_sft_stage,
    train_policy,
    train_reward_stage,
    train_sft_stage,
)

Say = Callable[[str], None]
RESULT_FOLDERS = ("sft", "reward_model", "policy", "no_kl_policy", "log", FOLDER)
RESULT_FILES = ("summary.json", "training_curves.png", "overoptimisation.png", "response.png")
TRACE_AT = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40, 45, 50)
"""Updates after which a run is evaluated on the way: dense at first, where the KL moves fastest."""
TRACE_RESPONSES = 128
MAX_UPDATE_KL = 0.02
"""An update ends early when the policy has moved this far: with a critic that is still poor it could go astray."""


@dataclass(frozen=True)
class PPORun:
    """One PPO run, with or without the KL price."""

    stage: PPOResult
    trace: list[Evaluation]
    """Evaluations on the way; the first one is the SFT model."""
    final: Evaluation


@dataclass
class CapstoneRun:
    """Everything a capstone run made, in memory; stages that were not reached are None."""

    preset: Preset
    seed: int
    tokenizer: Any
    prompts: list[str]
    """The evaluation's prompts, in the order of each `Evaluation.responses`."""
    seconds: dict[str, float] = field(default_factory=dict)
    stage1: SFTResult | None = None
    stage2: RewardModelResult | None = None
    sft: Evaluation | None = None
    ppo: PPORun | None = None
    no_kl: PPORun | None = None
    finished: list[str] = field(default_factory=list)
    """Sentences: which stages are done, and where their models lie."""

    def settings(self) -> dict[str, Any]:
        """What decides every number of the run."""
        return {"PRESET": self.preset.name, "SEED": self.seed, "sizes": asdict(self.preset)}

    def evaluations(self) -> dict[str, Evaluation]:
        """The three policies of a complete run, by name."""
        assert self.sft and self.ppo and self.no_kl
        return {"SFT": self.sft, "PPO": self.ppo.final, "PPO without KL price": self.no_kl.final}

    def summary(self) -> dict[str, Any]:
        """The numbers of the run as plain data; all but `seconds` are the same for the same seed and machine."""
        assert self.sft and self.ppo and self.no_kl and self.stage2
        return {
            "preset": self.preset.name,
            "seed": self.seed,
            "gold_max": GOLD_MAX,
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
            "reward_model": {"accuracy": self.stage2.accuracy},
            "sft": _numbers(self.sft, "gold", "proxy", "valid"),
            "ppo": _numbers(self.ppo.final, "gold", "proxy", "valid", "kl"),
            "no_kl": _numbers(self.no_kl.final, "gold", "proxy", "valid", "kl"),
        }


def prepare_output(out: Path, resume: bool = False, inputs: Sequence[Path] = ()) -> None:
    """Make the folder and clear it of an earlier run's results, so that nothing old can pass for new.

    Args:
        out: the folder.
        resume: keep everything, for an unfinished run to go on.
        inputs: what the run will read; none of it may lie in a folder that is cleared.

    Raises:
        ValueError: the folder cannot be made or written to, or clearing it would remove what is not a result.
    """
    if out.resolve() == Path.cwd():
        raise ValueError("expected OUT to be a folder of the run's own, got the working directory; give OUT=runs/name")
    for folder in (out / name for name in RESULT_FOLDERS):
        if folder.is_symlink() or folder.is_file():
            raise ValueError(f"expected {folder} to be a folder of an earlier run, got a file or a link; move it away")
        for one in inputs:
            if one.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"expected results to go elsewhere than what is read, got {one} in {out}; change OUT")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not resume:
            for name in RESULT_FOLDERS:
                shutil.rmtree(out / name, ignore_errors=True)
            for name in RESULT_FILES:
                (out / name).unlink(missing_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(
            f"expected OUT to be a folder that can be written, got {out} ({error.strerror}); choose another"
        ) from error


def run_capstone(run: CapstoneRun, out: Path, say: Say, journal: Journal) -> None:
    """Run every stage into `run`, saving each model under `out` as soon as it is finished.

    Args:
        run: as `new_run` makes it; filled stage by stage, so that an interruption leaves what was done.
        out: a folder made ready by `prepare_output`.
        say: receives a short account of each stage, a few lines at a time.
        journal: of this run; what it says is finished is read from `out` and not made again.
    """
    run.seconds.update(journal.facts.get("seconds", {}))
    before, start = sum(run.seconds.values()), time.perf_counter()
    _sft(run, out, say, journal)
    _reward_model(run, out, say, journal)
    assert run.stage1
    run.sft = _evaluate(run, run.stage1.policy, run.prompts)
    with _timed(run.seconds, "ppo"):
        updates, size, price = run.preset.ppo_updates, run.preset.ppo_batch_size, run.preset.kl_coef
        say(f"3  PPO: {updates} updates of {size} responses, KL price {price}")
        run.ppo = _ppo_run(run, price, out / "log" / "ppo", journal.checkpoints("ppo"), journal, say)
        _keep(run, run.ppo.stage.policy, out / "policy", "the policy")
        say(_account(run.ppo.final))
        say("4  The same without the KL price: what the reward model never saw, it cannot judge")
        run.no_kl = _ppo_run(run, 0.0, out / "log" / "no_kl", journal.checkpoints("no_kl"), journal, say)
        _keep(run, run.no_kl.stage.policy, out / "no_kl_policy", "the policy without KL price")
        say(_account(run.no_kl.final))
    run.seconds["total"] = before + time.perf_counter() - start


def _sft(run: CapstoneRun, out: Path, say: Say, journal: Journal) -> None:
    say(f"1  SFT: {run.preset.demonstrations:,} demonstrations by a mediocre writer")
    if "sft_losses" in journal.facts:
        run.stage1 = load_sft_stage(out / "sft", journal.facts["sft_losses"])
        _say_finished(run, out / "sft", "the SFT model", say)
    else:
        with _timed(run.seconds, "sft"):
            run.stage1 = train_sft_stage(run.preset, run.tokenizer, run.seed)
        _keep(run, run.stage1.policy, out / "sft", "the SFT model")
        journal.record(sft_losses=run.stage1.losses, seconds=run.seconds)
    say(f"   loss {run.stage1.losses[0]:.2f} -> {run.stage1.losses[-1]:.2f} nats a token")


def _reward_model(run: CapstoneRun, out: Path, say: Say, journal: Journal) -> None:
    assert run.stage1
    say(f"2  Reward model: {run.preset.preference_pairs:,} comparisons of its responses by noisy annotators")
    if "reward_history" in journal.facts:
        facts = journal.facts
        run.stage2 = load_reward_stage(out / "reward_model", facts["reward_history"], facts["reward_accuracy"])
        _say_finished(run, out / "reward_model", "the reward model", say)
    else:
        with _timed(run.seconds, "reward_model"):
            run.stage2 = train_reward_stage(run.stage1.policy, run.preset, run.tokenizer, run.seed)
        _keep(run, run.stage2.reward_model, out / "reward_model", "the reward model")
        journal.record(reward_history=run.stage2.history, reward_accuracy=run.stage2.accuracy, seconds=run.seconds)
    say(f"   accuracy on held-out comparisons {run.stage2.accuracy:.3f}")


def new_run(preset_name: str, seed: int) -> CapstoneRun:
    """An empty run.

    Raises:
        ValueError: no preset has this name.
    """
    preset = find_preset(preset_name)
    if preset.threads is not None:
        torch.set_num_threads(preset.threads)
    prompts = sample_prompts(preset.evaluation_responses, random.Random(seed + 2))
    return CapstoneRun(preset, seed, build_tokenizer(), prompts)


def write_summary(run: CapstoneRun, out: Path) -> Path:
    """Write `summary.json` in one piece."""
    unfinished = out / "summary.json.unfinished"
    unfinished.write_text(json.dumps(run.summary(), indent=2) + "\n")
    os.replace(unfinished, out / "summary.json")
    return out / "summary.json"


def ppo_config(preset: Preset, tokenizer: Any, seed: int, kl_coef: float, log_dir: str | None = None) -> PPOConfig:
    """The PPO settings of a preset."""
    return PPOConfig(
        stop_token_ids=(tokenizer.eos_token_id,),
        pad_token_id=tokenizer.pad_token_id,
        max_new_tokens=preset.max_new_tokens,
        num_updates=preset.ppo_updates,
        batch_size=preset.ppo_batch_size,
        num_epochs=preset.ppo_epochs,
        learning_rate=preset.ppo_learning_rate,
        kl_coef=kl_coef,
        max_update_kl=MAX_UPDATE_KL,
        seed=seed,
        log_dir=log_dir,
    )


def _ppo_run(
    run: CapstoneRun, kl_coef: float, log: Path, checkpoints: CheckpointFolder, journal: Journal, say: Say
) -> PPORun:
    """PPO with this price of the KL, from the newest checkpoint if there is one."""
    assert run.stage1 and run.stage2 and run.sft
    trace_prompts, name = run.prompts[:TRACE_RESPONSES], f"{checkpoints.directory.name}_trace"
    start = checkpoints.newest(say)
    # Evaluations by the number of updates done; those after the checkpoint are made again, with the same result.
    trace = {int(done): Evaluation(**one) for done, one in journal.facts.get(name, {}).items()}
    if start is None:
        trace[0] = _evaluate(run, run.stage1.policy, trace_prompts)
    else:
        say(f"   going on after update {updates_done(start)}, from {start}")

    def on_update(trainer: PPOTrainer) -> None:
        if trainer.updates_done in TRACE_AT:
            trace[trainer.updates_done] = _evaluate(run, trainer.policy, trace_prompts)
            journal.record(**{name: {n: asdict(one) for n, one in trace.items()}})
        checkpoints.save(trainer)

    config = ppo_config(run.preset, run.tokenizer, run.seed, kl_coef, str(log))
    prompts = sample_prompts(config.num_updates * config.batch_size, random.Random(run.seed + 3))
    stage = train_policy(run.stage1, run.stage2, config, run.tokenizer, prompts, on_update, start)
    return PPORun(stage, list(trace.values()), _evaluate(run, stage.policy, run.prompts))


def _evaluate(run: CapstoneRun, policy: Any, prompts: list[str]) -> Evaluation:
    assert run.stage1 and run.stage2
    config = ppo_config(run.preset, run.tokenizer, run.seed, run.preset.kl_coef)
    score: Scorer = make_scorer(run.stage2.reward_model)
    return evaluate_policy(policy, run.stage1.policy, score, prompts, run.tokenizer, config)


def _keep(run: CapstoneRun, model: Any, directory: Path, what: str) -> None:
    """Save a finished model with its tokenizer; the folder appears only when it is whole."""
    save_model(model, run.tokenizer, directory)
    run.finished.append(f"{what} in {directory}")


def save_model(model: Any, tokenizer: Any, directory: Path) -> None:
    """`save_pretrained` of both, in one piece: the folder appears when it is whole, in the place of an older one.

    Raises:
        OSError: it could not be written, say on a full disk.
    """
    unfinished = directory.with_name(directory.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        shutil.rmtree(directory, ignore_errors=True)
        os.replace(unfinished, directory)
    except (OSError, RuntimeError, SafetensorError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise OSError(f"expected room for a model in {directory}, got: {error}") from error


def _say_finished(run: CapstoneRun, directory: Path, what: str, say: Say) -> None:
    say(f"   finished before: {directory}")
    run.finished.append(f"{what} in {directory}")


def _account(final: Evaluation) -> str:
    gold = f"gold {final.gold:.2f} of {GOLD_MAX:.0f}"
    return f"   {gold}, proxy {final.proxy:.2f}, KL {final.kl:.1f} nats, valid {final.valid:.0%}"


def _numbers(evaluation: Evaluation, *names: str) -> dict[str, float]:
    return {name: getattr(evaluation, name) for name in names}


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start
