"""One exercise on plain data: the call, a student's files as modules, what it left changed, the outcome.

A grader's worker has these modules, `catalog` and the stand-ins, and nothing else of the harness.
"""
