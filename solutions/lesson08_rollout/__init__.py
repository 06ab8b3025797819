from ppo_by_hand.core.config import RolloutConfig

from .experience import Experience, ExperienceBuffer, merge_experiences
from .generation import (
    Generation,
    checked_generation,
    checked_sampler,
    generate,
    merge_generations,
    sample_token,
    sampling_options,
)
from .rollout import collect_experience, evaluate_responses, recompute_log_probs, rollout_metrics
