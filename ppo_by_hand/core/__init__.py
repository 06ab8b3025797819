"""What the lessons are given: no exercise in it, and no lesson imported."""
