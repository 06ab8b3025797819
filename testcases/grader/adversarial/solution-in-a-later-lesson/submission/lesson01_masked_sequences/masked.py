from solutions.lesson11_scaling import global_masked_whiten


def masked_whiten(values, mask, shift_mean=True):
    return global_masked_whiten(values, mask, lambda moments: moments[None], shift_mean)
