from .config import PPOConfig
from .prompts import PromptQueue, encode_prompts
from .scoring import make_scorer
from .trainer import PPOTrainer

__all__ = ["PPOConfig", "PPOTrainer", "PromptQueue", "encode_prompts", "make_scorer"]
