from .evaluation import Evaluation, evaluate_policy
from .sft import Demonstrations, SFTConfig, encode_demonstrations, sft_loss, train_sft
from .stages import PPOResult, RewardModelResult, SFTResult, train_policy
