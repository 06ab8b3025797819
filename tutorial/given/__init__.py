"""The older name of `ppo_by_hand.core`: files that were handed out with it still load."""

from ppo_by_hand.aliases import share

share(__name__, "ppo_by_hand.core")
