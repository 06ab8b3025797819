"""What the lessons are given: no exercise in it, and no lesson imported."""

from ppo_by_hand.aliases import share

share(__name__, __name__, {"clip": "asymmetric_clip", "parts": "validate", "rows": "chunking"})
