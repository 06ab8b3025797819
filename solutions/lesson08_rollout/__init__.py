from ..given.config import RolloutConfig
from .experience import Experience, ExperienceBuffer, merge_experiences
from .generation import Generation, generate, merge_generations, sample_token
from .rollout import collect_experience, evaluate_responses
