"""Cases for the blocks of PPO and RLHF, and `check`, which holds a function against them."""

from .cases import Case, Operation, operation, operations
from .checking import check, variants
from .report import AGREES, CORNER, DIFFERS, Difference, Report

__all__ = [
    "AGREES", "CORNER", "DIFFERS", "Case", "Difference", "Operation", "Report", "check", "operation", "operations",
    "variants",
]  # fmt: skip
