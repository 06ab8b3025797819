from .groups import group_advantages
from .losses import (
    DENOMINATORS,
    cispo_token_losses,
    clipped_token_losses,
    kl_token_losses,
    reduce_losses,
    sequence_ratio,
    truncated_importance_weights,
)
from .preferences import best_of_n_kl, dpo_loss, expected_best_of_n
