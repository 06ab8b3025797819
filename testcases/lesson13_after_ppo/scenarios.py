"""Lesson 13 through what a caller does with the answer."""


def kl_in_units(lesson, log_probs, old_log_probs, ref_log_probs, mask, unit):
    """The token losses as multiples of `unit`, to a tenth: float32 holds two or three digits of a small KL."""
    return (lesson.kl_token_losses(log_probs, old_log_probs, ref_log_probs, mask) / unit).round(decimals=1)
