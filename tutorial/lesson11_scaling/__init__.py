from ppo_by_hand.core.processes import Processes

from .memory import enable_gradient_checkpointing, keep_reference_adapter
from .merging import global_masked_whiten, masked_moments, merge_moments, merge_statistics
from .sharing import gradient_weight, plan_microbatches
from .trainer import DistributedPPOTrainer
