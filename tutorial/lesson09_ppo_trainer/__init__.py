from ppo_by_hand.core.checkpoints import CheckpointFolder
from ppo_by_hand.core.checks import DivergedError
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.texts import PromptQueue, encode_prompts, make_scorer

from .trainer import PPOTrainer
