from .policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go
