from .gae import compute_gae, compute_response_gae, n_step_advantages, td_errors
