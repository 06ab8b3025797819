from .checkpoints import CheckpointFolder
from .checks import DivergedError
from .config import PPOConfig
from .prompts import PromptQueue, encode_prompts
from .scoring import make_scorer
from .trainer import PPOTrainer

__all__ = [
    "CheckpointFolder",
    "DivergedError",
    "PPOConfig",
    "PPOTrainer",
    "PromptQueue",
    "encode_prompts",
    "make_scorer",
]
