"""Comparing an answer with the right one, and the text of a failure."""
