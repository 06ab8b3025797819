from .masked import (
    first_true_index,
    gather_log_probs,
    masked_mean,
    masked_whiten,
    position_ids,
    response_log_probs,
    response_mask,
    token_entropy,
    truncate_after_stop,
)
