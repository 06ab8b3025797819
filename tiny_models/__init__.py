"""The toy environment: a synthetic language of reviews with a known gold score, its tokenizer and its tiny models.

Import the part you need (`from tiny_models.language import sample_review`). This file imports nothing, so
that a program which only needs sentences does not wait for torch.
"""
