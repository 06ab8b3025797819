"""The pages that move: their texts are here, their scripts in book/static/playgrounds."""

from pathlib import Path

RECORDED = Path(__file__).with_name("overoptimization.json")
