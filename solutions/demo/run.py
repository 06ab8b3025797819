"""The whole of RLHF in the toy environment: SFT, reward model, PPO with and without the KL penalty, evaluation."""

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ppo_by_hand.core.checkpoints import CheckpointFolder
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.files import write_json
from ppo_by_hand.core.texts import make_scorer
from tiny_models.gold import GOLD_MAX
from tiny_models.language import sample_prompts
from tiny_models.presets import Preset, find_preset
from tiny_models.tokenizer import build_tokenizer

from ..lesson09_ppo_trainer import PPOTrainer
from ..lesson12_capstone import Evaluation, PPOResult, RewardModelResult, SFTResult, evaluate_policy, train_policy
from .folder import CHECKPOINTS, save_model
from .stages import train_reward_stage, train_sft_stage

TRACE_AT = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40, 45, 50)
"""Updates after which a run is evaluated on the way: dense at first, where the KL moves fastest."""
TRACE_RESPONSES = 128
MAX_UPDATE_KL = 0.02
"""An update ends early when the policy has moved this far: with a critic that is still poor it could go astray."""


@dataclass(frozen=True)
class PPORun:
    """One PPO run, with or without the KL penalty."""

    result: PPOResult
    trace: list[Evaluation]
    """Evaluations on the way; the first one is the SFT model."""
    final: Evaluation


class Capstone:
    """One run: what it is to do, and, after `run`, everything that it has made.

    Args:
        preset_name: of the sizes of all stages.
        seed: decides every random number.
        out: made ready by `open_folder`.

    Raises:
        ValueError: no preset has this name.
    """

    sft: SFTResult
    reward: RewardModelResult
    before: Evaluation
    """Of the SFT model."""
    ppo: PPORun
    no_kl: PPORun

    def __init__(self, preset_name: str, seed: int, out: Path) -> None:
        self.preset, self.seed, self.out = find_preset(preset_name), seed, out
        if self.preset.threads is not None:
            torch.set_num_threads(self.preset.threads)
        self.tokenizer = build_tokenizer()
        # The evaluation's, in the order of each `Evaluation.responses`.
        self.prompts = sample_prompts(self.preset.evaluation_responses, random.Random(seed + 2))

    def run(self) -> None:
        """Run every stage, saving each model as soon as it is finished.

        A run that goes on makes the first two stages again, with the same result; PPO starts at its last checkpoint.
        """
        preset = self.preset
        print(f"1  SFT: {preset.demonstrations:,} demonstrations by a mediocre writer")
        self.sft = train_sft_stage(preset, self.tokenizer, self.seed)
        save_model(self.sft.policy, self.tokenizer, self.out / "sft")
        print(f"   loss {self.sft.losses[0]:.2f} -> {self.sft.losses[-1]:.2f} nats per token")
        print(f"2  Reward model: {preset.preference_pairs:,} comparisons of its responses by noisy annotators")
        self.reward = train_reward_stage(self.sft.policy, preset, self.tokenizer, self.seed)
        save_model(self.reward.reward_model, self.tokenizer, self.out / "reward_model")
        print(f"   accuracy on held-out comparisons {self.reward.accuracy:.3f}")
        self.before = self.evaluate(self.sft.policy, self.prompts)
        updates, size = preset.ppo_updates, preset.ppo_batch_size
        print(f"3  PPO: {updates} updates of {size} responses, kl_coef {preset.kl_coef}")
        self.ppo = self.run_ppo(preset.kl_coef, "ppo", "policy")
        print("4  The same without the KL penalty: the policy leaves the texts that the reward model knows")
        self.no_kl = self.run_ppo(0.0, "no_kl", "no_kl_policy")

    def run_ppo(self, kl_coef: float, name: str, policy_name: str) -> PPORun:
        """Run PPO with this KL coefficient, from its checkpoint if there is one."""
        trace_prompts, trace_file = self.prompts[:TRACE_RESPONSES], self.out / "log" / name / "trace.json"
        checkpoints = CheckpointFolder(self.out / CHECKPOINTS / name)
        start = checkpoints.directory if checkpoints.is_of_another_run else None
        checkpoints.is_of_another_run = False  # `open_folder` has compared the runs
        # Evaluations by the number of updates done; those after the checkpoint are made again, with the same result.
        if start is None:
            trace = {0: self.evaluate(self.sft.policy, trace_prompts)}
        else:
            print(f"   continuing from {start}")
            trace = {int(done): Evaluation(**one) for done, one in json.loads(trace_file.read_text("utf-8")).items()}

        def on_update(trainer: PPOTrainer) -> None:
            if trainer.updates_done in TRACE_AT:
                trace[trainer.updates_done] = self.evaluate(trainer.policy, trace_prompts)
                write_json(trace_file, {done: asdict(one) for done, one in trace.items()})
            checkpoints.save(trainer)

        config = ppo_config(self.preset, self.tokenizer, self.seed, kl_coef, str(self.out / "log" / name))
        prompts = sample_prompts(config.num_updates * config.batch_size, random.Random(self.seed + 3))
        result = train_policy(self.sft, self.reward, config, self.tokenizer, prompts, on_update, start)
        final = self.evaluate(result.policy, self.prompts)
        save_model(result.policy, self.tokenizer, self.out / policy_name)
        return PPORun(result, list(trace.values()), final)

    def evaluate(self, policy: Any, prompts: list[str]) -> Evaluation:
        config, score = ppo_config(self.preset, self.tokenizer, self.seed), make_scorer(self.reward.reward_model)
        return evaluate_policy(policy, self.sft.policy, score, prompts, self.tokenizer, config)

    def summary(self) -> dict[str, Any]:
        """Return the run's numbers as plain data, the same for the same seed and machine."""

        def numbers(evaluation: Evaluation, *names: str) -> dict[str, float]:
            return {name: getattr(evaluation, name) for name in names}

        return {
            "preset": self.preset.name,
            "seed": self.seed,
            "gold_max": GOLD_MAX,
            "reward_model": {"accuracy": self.reward.accuracy},
            "sft": numbers(self.before, "gold", "proxy", "valid"),
            "ppo": numbers(self.ppo.final, "gold", "proxy", "valid", "kl"),
            "no_kl": numbers(self.no_kl.final, "gold", "proxy", "valid", "kl"),
        }


def ppo_config(
    preset: Preset, tokenizer: Any, seed: int, kl_coef: float = 0.0, log_dir: str | None = None
) -> PPOConfig:
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
