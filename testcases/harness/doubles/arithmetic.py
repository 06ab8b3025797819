"""Formulas in plain Python, to hold tensors against."""

import math


def nll(difference: float) -> float:
    """-log sigmoid(difference), without overflow."""
    return max(-difference, 0.0) + math.log1p(math.exp(-abs(difference)))
