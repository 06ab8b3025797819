"""The suites of the lessons, the engine that runs them, and the checks of the course itself."""
