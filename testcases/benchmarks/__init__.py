"""How fast the trainer is (`make bench`).

python -m testcases.benchmarks.trainer     against TRL 1.12.0 (in .venv-bench, which `make bench` makes) and bare passes
python -m testcases.benchmarks.costs       how cost grows with batch, response length and model size
python -m testcases.benchmarks.learning    what the trainer and TRL learn from the same episodes
python -m testcases.benchmarks.gpu         the demo and the trainer against TRL at real sizes, where there is a GPU
"""
