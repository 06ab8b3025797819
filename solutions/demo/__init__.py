"""Whole runs, built from the lessons: the toy environment's with its figures, and PPO on any Hugging Face model."""
