from ..given.checkpoints import CheckpointFolder
from ..given.checks import DivergedError
from ..given.config import PPOConfig
from ..given.prompts import PromptQueue, encode_prompts
from ..given.scoring import make_scorer
from .trainer import PPOTrainer
