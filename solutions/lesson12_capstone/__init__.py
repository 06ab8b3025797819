from .evaluation import Evaluation, evaluate_policy
from .sft import Demonstrations, SFTConfig, encode_demonstrations, sft_loss, train_sft
from .stages import (
    PPOResult,
    RewardModelResult,
    SFTResult,
    encode_preferences,
    train_policy,
    train_reward_stage,
    train_sft_stage,
)

__all__ = [
    "Demonstrations",
    "Evaluation",
    "SFTConfig",
    "SFTResult",
    "RewardModelResult",
    "PPOResult",
    "encode_demonstrations",
    "encode_preferences",
    "evaluate_policy",
    "sft_loss",
    "train_policy",
    "train_reward_stage",
    "train_sft",
    "train_sft_stage",
]
