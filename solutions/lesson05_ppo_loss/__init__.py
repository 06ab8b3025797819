from .ppo_loss import (
    clipped_objective,
    combine_losses,
    compute_kl_penalty_loss,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    update_beta,
    value_statistics,
)
