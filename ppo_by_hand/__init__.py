"""PPO for language models: the trainer, its blocks and what it takes. Each name's own docstring says what it does.

What is listed here is stable: a name or an argument goes only after a release that warns of it. All other exercises are
in their lessons: `from ppo_by_hand.lesson13_after_ppo import dpo_loss`. Modules may move.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

_HERE = Path(__file__).parent
# A wheel holds the lessons itself; in the repository they are in solutions/.
if not (_HERE / "lesson01_masked_sequences").is_dir():
    __path__.append(str(_HERE.parent / "solutions"))

__version__ = "1.0.0"
CONFIGS = _HERE / "configs" if (_HERE / "configs").is_dir() else _HERE.parent / "tutorial/lesson11_scaling/configs"
"""Folder of configuration files for `accelerate launch --config_file`: ddp.yaml, fsdp.yaml, zero2.yaml, ..."""

if TYPE_CHECKING:
    from .core.checkpoints import CheckpointFolder as CheckpointFolder
    from .core.checks import DivergedError as DivergedError
    from .core.config import PPOConfig as PPOConfig
    from .core.progress import quiet as quiet
    from .hub.models import merged_weights as merged_weights
    from .hub.rewards import text_reward as text_reward
    from .lesson01_masked_sequences import gather_log_probs as gather_log_probs
    from .lesson01_masked_sequences import response_mask as response_mask
    from .lesson02_reward_model import RewardModel as RewardModel
    from .lesson04_gae import compute_gae as compute_gae
    from .lesson04_gae import compute_response_gae as compute_response_gae
    from .lesson05_ppo_loss import compute_ppo_loss as compute_ppo_loss
    from .lesson05_ppo_loss import compute_value_loss as compute_value_loss
    from .lesson06_kl_rewards import compute_rewards as compute_rewards
    from .lesson06_kl_rewards import estimate_kl as estimate_kl
    from .lesson07_actor_critic import PolicyAndValue as PolicyAndValue
    from .lesson07_actor_critic import SharedPolicyAndValue as SharedPolicyAndValue
    from .lesson07_actor_critic import ValueModel as ValueModel
    from .lesson07_actor_critic import critic_from_reward_model as critic_from_reward_model
    from .lesson07_actor_critic import make_reference as make_reference
    from .lesson08_rollout import Experience as Experience
    from .lesson08_rollout import Generation as Generation
    from .lesson08_rollout import generate as generate
    from .lesson09_ppo_trainer import PPOTrainer as PPOTrainer
    from .lesson11_scaling import DistributedPPOTrainer as DistributedPPOTrainer
    from .lesson11_scaling import Processes as Processes
    from .lesson11_scaling import enable_gradient_checkpointing as enable_gradient_checkpointing
    from .lesson11_scaling import keep_reference_adapter as keep_reference_adapter
    from .lesson13_after_ppo import truncated_importance_weights as truncated_importance_weights

# Name -> module, as the lines above say it.
_IMPORTS = [node for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
_HOME_OF = {alias.name: f".{node.module}" for node in _IMPORTS if node.level for alias in node.names}
__all__ = ["CONFIGS", *_HOME_OF]

if not TYPE_CHECKING:  # else a name that is not there would be Any to a type checker

    def __getattr__(name: str) -> Any:
        """A public name, loaded when it is asked for, so that what it needs, such as accelerate, comes only then."""
        if name in _HOME_OF:
            return getattr(import_module(_HOME_OF[name], __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
