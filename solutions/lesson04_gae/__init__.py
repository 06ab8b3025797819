from .gae import compute_gae, compute_response_gae, gae_ends, n_step_advantages, td_errors
