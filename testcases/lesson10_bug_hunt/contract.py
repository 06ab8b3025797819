"""Lesson 10: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""
