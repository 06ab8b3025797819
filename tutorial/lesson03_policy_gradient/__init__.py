from .policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go

__all__ = ["leave_one_out_baseline", "reinforce_loss", "rewards_to_go"]
