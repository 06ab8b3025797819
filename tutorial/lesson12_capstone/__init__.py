from .evaluation import Evaluation, evaluate_policy
from .sft import Demonstrations, SFTConfig, encode_demonstrations, sft_loss, train_sft
from .stages import PPOResult, RewardModelResult, SFTResult, train_policy

__all__ = [
    "Demonstrations",
    "Evaluation",
    "PPOResult",
    "RewardModelResult",
    "SFTConfig",
    "SFTResult",
    "encode_demonstrations",
    "evaluate_policy",
    "sft_loss",
    "train_policy",
    "train_sft",
]
