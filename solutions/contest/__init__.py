"""The contest: PPO and what came after it, in the one place where the true quality of every text is known."""
