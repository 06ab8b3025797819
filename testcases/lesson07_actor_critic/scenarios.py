"""Live models for lesson 7. Most are toys whose answers can be read off."""

# ruff: noqa: F403  looked up by name
from .scenarios_adapters import *
from .scenarios_copies import *
from .scenarios_values import *
