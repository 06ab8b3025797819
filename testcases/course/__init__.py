"""The checks of the course itself."""
