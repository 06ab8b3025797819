"""Why an answer is wrong: the cause that explains it, or silence."""
