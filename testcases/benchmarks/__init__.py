"""How fast the trainer is (`make bench`).

python -m testcases.benchmarks.trainer     against TRL 1.12.0 (in .venv-bench, which `make bench` makes) and bare passes
python -m testcases.benchmarks.memory      peak memory at a vocabulary of 151,936 tokens
python -m testcases.benchmarks.gpu         the demo and the trainer against TRL at real sizes, where there is a GPU
"""
