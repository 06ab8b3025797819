def next_values(values, dones):
    return values[..., 1:].masked_fill(dones.bool(), 0.0)
