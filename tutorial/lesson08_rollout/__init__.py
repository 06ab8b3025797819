from .experience import Experience, ExperienceBuffer
from .generation import Generation, generate, sample_token
from .rollout import RolloutConfig, collect_experience, evaluate_responses

__all__ = [
    "Experience",
    "ExperienceBuffer",
    "Generation",
    "RolloutConfig",
    "collect_experience",
    "evaluate_responses",
    "generate",
    "sample_token",
]
