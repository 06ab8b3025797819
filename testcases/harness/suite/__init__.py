"""What the tests of a lesson are written in, and how they run."""
