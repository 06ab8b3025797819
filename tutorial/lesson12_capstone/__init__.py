from .evaluation import Evaluation, evaluate_policy
from .sft import Demonstrations, SFTConfig, encode_demonstrations, sft_loss, train_sft
from .stages import Stage1, Stage2, Stage3, encode_preferences, train_policy, train_reward_stage, train_sft_stage

__all__ = [
    "Demonstrations",
    "Evaluation",
    "SFTConfig",
    "Stage1",
    "Stage2",
    "Stage3",
    "encode_demonstrations",
    "encode_preferences",
    "evaluate_policy",
    "sft_loss",
    "train_policy",
    "train_reward_stage",
    "train_sft",
    "train_sft_stage",
]
