from .kl_rewards import (
    AdaptiveKLController,
    FixedKLController,
    compute_rewards,
    estimate_kl,
    nonnegative_kl,
    penalize_missing_stop,
)
