"""PPO for language models: the public names of the solved lessons. Each name's own docstring says what it takes.

What is listed here is stable: a name or an argument goes only after a release that warns of it. Modules may move.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

_HERE = Path(__file__).parent
# A wheel holds the lessons itself; in the repository they are in solutions/.
if not (_HERE / "lesson01_masked_sequences").is_dir():
    __path__.append(str(_HERE.parent / "solutions"))

if TYPE_CHECKING:
    from .core.checkpoint_folder import CheckpointFolder
    from .core.checks import DivergedError
    from .core.config import PPOConfig, RolloutConfig
    from .core.progress import quiet
    from .hub.rewards import text_reward
    from .lesson01_masked_sequences import (
        gather_log_probs,
        masked_mean,
        masked_whiten,
        position_ids,
        response_log_probs,
        response_mask,
        token_entropy,
    )
    from .lesson02_reward_model import (
        PreferenceBatch,
        RewardModel,
        RewardModelConfig,
        calibrate,
        pairwise_loss,
        ranking_loss,
        train_reward_model,
    )
    from .lesson04_gae import compute_gae, compute_response_gae
    from .lesson05_ppo_loss import compute_ppo_loss, compute_value_loss
    from .lesson06_kl_rewards import AdaptiveKLController, FixedKLController, compute_rewards, estimate_kl
    from .lesson07_actor_critic import (
        PolicyAlone,
        PolicyAndValue,
        SharedPolicyAndValue,
        ValueModel,
        critic_from_reward_model,
        freeze,
        make_reference,
    )
    from .lesson08_rollout import Experience, Generation, generate
    from .lesson09_ppo_trainer import PPOTrainer
    from .lesson11_scaling import (
        DistributedPPOTrainer,
        Processes,
        enable_gradient_checkpointing,
        keep_reference_adapter,
    )
    from .lesson13_after_ppo import (
        best_of_n_kl,
        cispo_token_losses,
        clipped_token_losses,
        dpo_loss,
        expected_best_of_n,
        group_advantages,
        kl_token_losses,
        reduce_losses,
        sequence_ratio,
        truncated_importance_weights,
    )

_MODULES = """
    core.config core.checks core.checkpoint_folder core.progress lesson01_masked_sequences lesson02_reward_model
    lesson04_gae lesson05_ppo_loss lesson06_kl_rewards lesson07_actor_critic lesson08_rollout lesson09_ppo_trainer
    lesson11_scaling lesson13_after_ppo hub.rewards
""".split()
__version__ = "0.1.0"

CONFIGS = _HERE / "configs" if (_HERE / "configs").is_dir() else _HERE.parent / "tutorial/lesson11_scaling/configs"
"""Folder of configuration files for `accelerate launch --config_file`: ddp.yaml, fsdp.yaml, zero2.yaml, ..."""

__all__ = [
    "CONFIGS",
    "AdaptiveKLController",
    "CheckpointFolder",
    "DistributedPPOTrainer",
    "DivergedError",
    "Experience",
    "FixedKLController",
    "Generation",
    "PPOConfig",
    "PPOTrainer",
    "PolicyAlone",
    "PolicyAndValue",
    "PreferenceBatch",
    "Processes",
    "RewardModel",
    "RewardModelConfig",
    "RolloutConfig",
    "SharedPolicyAndValue",
    "ValueModel",
    "best_of_n_kl",
    "calibrate",
    "cispo_token_losses",
    "clipped_token_losses",
    "compute_gae",
    "compute_ppo_loss",
    "compute_response_gae",
    "compute_rewards",
    "compute_value_loss",
    "critic_from_reward_model",
    "dpo_loss",
    "enable_gradient_checkpointing",
    "estimate_kl",
    "expected_best_of_n",
    "freeze",
    "gather_log_probs",
    "generate",
    "group_advantages",
    "keep_reference_adapter",
    "kl_token_losses",
    "make_reference",
    "masked_mean",
    "masked_whiten",
    "pairwise_loss",
    "position_ids",
    "quiet",
    "ranking_loss",
    "reduce_losses",
    "response_log_probs",
    "response_mask",
    "sequence_ratio",
    "text_reward",
    "token_entropy",
    "train_reward_model",
    "truncated_importance_weights",
]


if not TYPE_CHECKING:  # else a name that is not there would be Any to a type checker

    def __getattr__(name: str) -> Any:
        """A public name of the first module that has it: what comes later, such as accelerate, need not be imported."""
        for module in _MODULES if name in __all__ else ():
            if hasattr(found := import_module(f".{module}", __name__), name):
                return getattr(found, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
