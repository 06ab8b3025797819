"""What a run on your own models is made of, before any lesson: policy, reward, prompts and settings."""
