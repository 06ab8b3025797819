"""Live objects for lesson 9: trainers over tables, not neural networks, so that each number is worked out by hand."""

# ruff: noqa: F403  looked up by name
from .scenarios_checkpoints import *
from .scenarios_run import *
from .scenarios_updates import *
