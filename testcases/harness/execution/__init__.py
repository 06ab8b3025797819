"""One exercise on plain data: the call, a student's files as modules, what it left changed, the outcome.

A grader's worker has these modules without this face: they import each other, and `catalog`, by module.
"""
