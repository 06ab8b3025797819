from .kl_rewards import (
    ESTIMATORS,
    AdaptiveKLController,
    FixedKLController,
    compute_rewards,
    estimate_kl,
    penalize_missing_stop,
)

__all__ = [
    "ESTIMATORS",
    "AdaptiveKLController",
    "FixedKLController",
    "compute_rewards",
    "estimate_kl",
    "penalize_missing_stop",
]
