"""Exercises of lesson 6 that need more than one call with plain data."""


def coefficients(lesson, kl_coef, target_kl, horizon, seen, n_steps):
    """The coefficient after each of several updates of one adaptive controller."""
    controller = lesson.AdaptiveKLController(kl_coef, target_kl, horizon)
    found = {}
    for number, (current, steps) in enumerate(zip(seen, n_steps, strict=True), start=1):
        controller.update(current, steps)
        found[f"update {number}"] = controller.value
    return found


def kl_in_units(lesson, log_probs, ref_log_probs, unit, estimator=None):
    """The estimate as a multiple of `unit`, to a tenth: float32 holds two or three digits of a small KL."""
    pair = log_probs, ref_log_probs
    kl = lesson.estimate_kl(*pair, estimator) if estimator else lesson.nonnegative_kl(*pair)
    return (kl / unit).round(decimals=1)


def expected_kl(lesson, logits, ref_logits, estimator):
    """The mean of the estimates over all tokens: what sampling gives on average, as a loss by the logits."""
    log_probs = logits.log_softmax(dim=-1)
    estimates = lesson.estimate_kl(log_probs, ref_logits.log_softmax(dim=-1), estimator)
    return (log_probs.detach().exp() * estimates).sum(dim=-1)
