"""The whole of RLHF in the toy environment: SFT, reward model, PPO with and without the KL penalty, evaluation."""

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ppo_by_hand.core.checkpoints import CheckpointFolder
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.files import write_json, write_text
from ppo_by_hand.core.texts import make_scorer
from tiny_models.gold import GOLD_MAX
from tiny_models.language import sample_prompts
from tiny_models.presets import Preset, find_preset
from tiny_models.tokenizer import build_tokenizer

from ..lesson09_ppo_trainer import PPOTrainer
from ..lesson12_capstone import Evaluation, PPOResult, RewardModelResult, SFTResult, evaluate_policy, train_policy
from .folder import CHECKPOINTS, save_model
from .stages import train_reward_stage, train_sft_stage

Say = Callable[[str], None]
TRACE_AT = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40, 45, 50)
"""Updates after which a run is evaluated on the way: dense at first, where the KL moves fastest."""
TRACE_RESPONSES = 128
MAX_UPDATE_KL = 0.02
"""An update ends early when the policy has moved this far: with a critic that is still poor it could go astray."""


@dataclass(frozen=True)
class Plan:
    """What a run is to do, and where."""

    preset: Preset
    seed: int
    tokenizer: Any
    prompts: list[str]
    """The evaluation's prompts, in the order of each `Evaluation.responses`."""
    out: Path
    """Made ready by `open_folder`."""
    say: Say
    """Receives a short account of each stage, a few lines at a time."""

    def settings(self) -> dict[str, Any]:
        """Return what decides every number of the run."""
        return {"PRESET": self.preset.name, "SEED": self.seed, **asdict(self.preset)}


@dataclass(frozen=True)
class PPORun:
    """One PPO run, with or without the KL penalty."""

    result: PPOResult
    trace: list[Evaluation]
    """Evaluations on the way; the first one is the SFT model."""
    final: Evaluation


@dataclass(frozen=True)
class CapstoneRun:
    """Everything that a run made, in memory."""

    plan: Plan
    sft: SFTResult
    reward: RewardModelResult
    before: Evaluation
    """Of the SFT model."""
    ppo: PPORun
    no_kl: PPORun

    def evaluations(self) -> dict[str, Evaluation]:
        """Return the evaluations of the three policies, by name."""
        return {"SFT": self.before, "PPO": self.ppo.final, "PPO without KL penalty": self.no_kl.final}

    def summary(self) -> dict[str, Any]:
        """Return the run's numbers as plain data, the same for the same seed and machine."""
        return {
            "preset": self.plan.preset.name,
            "seed": self.plan.seed,
            "gold_max": GOLD_MAX,
            "reward_model": {"accuracy": self.reward.accuracy},
            "sft": _numbers(self.before, "gold", "proxy", "valid"),
            "ppo": _numbers(self.ppo.final, "gold", "proxy", "valid", "kl"),
            "no_kl": _numbers(self.no_kl.final, "gold", "proxy", "valid", "kl"),
        }


def make_plan(preset_name: str, seed: int, out: Path, say: Say) -> Plan:
    """Make the plan of a run.

    Raises:
        ValueError: no preset has this name.
    """
    preset = find_preset(preset_name)
    if preset.threads is not None:
        torch.set_num_threads(preset.threads)
    prompts = sample_prompts(preset.evaluation_responses, random.Random(seed + 2))
    return Plan(preset, seed, build_tokenizer(), prompts, out, say)


def run_capstone(plan: Plan) -> CapstoneRun:
    """Run every stage, saving each model as soon as it is finished.

    A run that goes on makes the first two stages again, with the same result; PPO starts at its last checkpoint.
    """
    preset = plan.preset
    plan.say(f"1  SFT: {preset.demonstrations:,} demonstrations by a mediocre writer")
    sft = train_sft_stage(preset, plan.tokenizer, plan.seed)
    save_model(sft.policy, plan.tokenizer, plan.out / "sft")
    plan.say(f"   loss {sft.losses[0]:.2f} -> {sft.losses[-1]:.2f} nats per token")
    plan.say(f"2  Reward model: {preset.preference_pairs:,} comparisons of its responses by noisy annotators")
    reward = train_reward_stage(sft.policy, preset, plan.tokenizer, plan.seed)
    save_model(reward.reward_model, plan.tokenizer, plan.out / "reward_model")
    plan.say(f"   accuracy on held-out comparisons {reward.accuracy:.3f}")
    before = _evaluate(plan, sft, reward, sft.policy, plan.prompts)
    updates, size = preset.ppo_updates, preset.ppo_batch_size
    plan.say(f"3  PPO: {updates} updates of {size} responses, kl_coef {preset.kl_coef}")
    ppo = _ppo_run(plan, sft, reward, preset.kl_coef, "ppo")
    plan.say("4  The same without the KL penalty: the policy leaves the texts that the reward model knows")
    no_kl = _ppo_run(plan, sft, reward, 0.0, "no_kl")
    return CapstoneRun(plan, sft, reward, before, ppo, no_kl)


def _ppo_run(plan: Plan, sft: SFTResult, reward: RewardModelResult, kl_coef: float, name: str) -> PPORun:
    """PPO with this KL coefficient, from its checkpoint if there is one."""
    trace_prompts, trace_file = plan.prompts[:TRACE_RESPONSES], plan.out / "log" / name / "trace.json"
    checkpoints = CheckpointFolder(plan.out / CHECKPOINTS / name)
    start = checkpoints.directory if checkpoints.is_of_another_run else None
    checkpoints.is_of_another_run = False  # `open_folder` has compared the runs
    # Evaluations by the number of updates done; those after the checkpoint are made again, with the same result.
    if start is None:
        trace = {0: _evaluate(plan, sft, reward, sft.policy, trace_prompts)}
    else:
        plan.say(f"   continuing from {start}")
        trace = {int(done): Evaluation(**one) for done, one in json.loads(trace_file.read_text("utf-8")).items()}

    def on_update(trainer: PPOTrainer) -> None:
        if trainer.updates_done in TRACE_AT:
            trace[trainer.updates_done] = _evaluate(plan, sft, reward, trainer.policy, trace_prompts)
            write_json(trace_file, {done: asdict(one) for done, one in trace.items()})
        checkpoints.save(trainer)

    config = ppo_config(plan.preset, plan.tokenizer, plan.seed, kl_coef, str(plan.out / "log" / name))
    prompts = sample_prompts(config.num_updates * config.batch_size, random.Random(plan.seed + 3))
    result = train_policy(sft, reward, config, plan.tokenizer, prompts, on_update, start)
    final = _evaluate(plan, sft, reward, result.policy, plan.prompts)
    save_model(result.policy, plan.tokenizer, plan.out / ("policy" if kl_coef else "no_kl_policy"))
    plan.say(
        f"   gold {final.gold:.2f} of {GOLD_MAX:.0f}, proxy {final.proxy:.2f}, KL {final.kl:.1f} nats, "
        f"grammatical {final.valid:.0%}"
    )
    return PPORun(result, list(trace.values()), final)


def _evaluate(plan: Plan, sft: SFTResult, reward: RewardModelResult, policy: Any, prompts: list[str]) -> Evaluation:
    config = ppo_config(plan.preset, plan.tokenizer, plan.seed, plan.preset.kl_coef)
    return evaluate_policy(policy, sft.policy, make_scorer(reward.reward_model), prompts, plan.tokenizer, config)


def write_summary(run: CapstoneRun) -> Path:
    return write_text(run.plan.out / "summary.json", json.dumps(run.summary(), indent=2) + "\n")


def ppo_config(preset: Preset, tokenizer: Any, seed: int, kl_coef: float, log_dir: str | None = None) -> PPOConfig:
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


def _numbers(evaluation: Evaluation, *names: str) -> dict[str, float]:
    return {name: getattr(evaluation, name) for name in names}
