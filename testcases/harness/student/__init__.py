"""What a student calls beside pytest: progress, hints, reset, the course's own code."""
