"""The solved lessons: every building block of PPO for RLHF, and the single source of the stubs in `tutorial/`."""
