from ppo_by_hand.core.checkpoint_folder import CheckpointFolder
from ppo_by_hand.core.checks import DivergedError
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.prompts import PromptQueue, encode_prompts
from ppo_by_hand.core.scoring import make_scorer

from .trainer import PPOTrainer
