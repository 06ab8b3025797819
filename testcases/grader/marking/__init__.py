"""From submissions to results: the assignment, marks, what is stored."""
