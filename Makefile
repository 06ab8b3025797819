# Every target does all of its set-up by itself; a second run installs nothing.
.DEFAULT_GOAL := help
.PHONY: help setup demo test progress hint reset dispute solution check check-sandbox gradescope stubs figures checkpoints notebooks lab bench lint

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venv-bench
BENCH_READY := $(BENCH)/.ready
LAB_READY := $(VENV)/.ready-lab

PRESET ?= tiny
STACK ?= solutions
SEED ?= 0
demo: OUT ?= runs/demo
POLICY ?=
REWARD ?=
PROMPTS ?=
SET ?=
RESUME ?=
OPTIONS ?=
SUBMISSIONS ?=
DISPUTES ?=
JOBS ?=
ROSTER ?=
SANDBOX ?=
# Not an argument of a command, which ps would show: make hands it on in the environment.
export SECRET ?=

help: ## Show the commands
	@echo "PPO by Hand: build PPO for RLHF one tested block at a time."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv and install everything (the other commands do it too)

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "error: expected Python 3.11 or newer, got $$($(PYTHON) --version 2>&1 || true); install it and run: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "error: this Python has no venv module; install it (Debian and Ubuntu: apt install python3-venv) and run make again"; exit 1; }
	@echo "installing into $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $(READY)

# Apart, since the exercises and the demo need no browser.
$(LAB_READY): requirements-lab.lock $(READY)
	@echo "installing JupyterLab into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -r requirements-lab.lock
	@touch $(LAB_READY)

demo: $(READY) ## SFT, reward model and PPO on this machine [PRESET=tiny SEED=0 OUT=runs/demo RESUME=1; your lessons: STACK=tutorial; PRESET=hub: POLICY= REWARD= PROMPTS= SET=]
	@test -f '$(STACK)/apps/__init__.py' || \
	  { echo "error: expected STACK to be solutions or tutorial, got '$(STACK)' without apps/__init__.py; make stubs writes it"; exit 1; }
	@$(BIN)/python -m $(STACK).apps --preset '$(PRESET)' --seed '$(SEED)' --out '$(OUT)' \
	  --policy '$(POLICY)' --reward '$(REWARD)' --prompts '$(PROMPTS)' --set '$(SET)' \
	  $(if $(filter-out 0,$(RESUME)),--resume)

test: $(READY) $(LAB_READY) ## Check the course itself: everything (students: run pytest instead)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/python -m testcases.selfcheck.stubs --check
	@$(BIN)/python -m book.figures --check
	@$(BIN)/mypy
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest testcases --subject=solutions -n 2 --dist loadgroup

progress: $(READY) ## How far you are, lesson by lesson
	@$(BIN)/python -m testcases.engine.progress

hint: $(READY) ## One more hint [LESSON=4] [EXERCISE=compute_gae]
	@$(BIN)/python -m testcases.engine.hint $(LESSON) $(if $(EXERCISE),--exercise $(EXERCISE))

reset: $(READY) ## Start a lesson afresh; asks first and keeps a copy [LESSON=4]
	@$(BIN)/python -m testcases.engine.reset $(LESSON)

dispute: $(READY) ## Object to a failure: a file for your instructor [LESSON=4 EXERCISE=compute_gae]
	@$(BIN)/python -m testcases.engine.dispute '$(LESSON)' '$(EXERCISE)'

solution: $(READY) ## The solution of a lesson that you have passed [LESSON=4]
	@$(BIN)/python -m testcases.engine.solution $(LESSON)

check: $(READY) ## Grade your lessons, or a folder [SUBMISSIONS=dir OUT=runs/check JOBS= SECRET= ROSTER= SANDBOX= DISPUTES=]
	@$(BIN)/python -m testcases.grader '$(SUBMISSIONS)' --out '$(OUT)' --jobs '$(JOBS)' \
	  --roster '$(ROSTER)' --sandbox '$(SANDBOX)' --disputes '$(DISPUTES)'

check-sandbox: $(READY) ## Which protections of the grader hold on this machine: tries each
	@$(BIN)/python -m testcases.grader.check_sandbox

gradescope: $(READY) ## Write runs/gradescope.zip, an autograder to upload
	@$(BIN)/python -m testcases.grader.reports.gradescope zip runs/gradescope.zip

stubs: $(READY) ## Write tutorial/ from the solution regions of solutions/
	@$(BIN)/python -m testcases.selfcheck.stubs

figures: $(READY) ## Draw the figures of the lesson texts
	@$(BIN)/python -m book.figures

checkpoints: $(READY) ## Rebuild the small models shipped in tiny_models/checkpoints
	@$(BIN)/python -m testcases.selfcheck.checkpoints

notebooks: $(READY) ## Run all notebooks and refresh their outputs
	@$(BIN)/python -m testcases.selfcheck.notebooks

lab: $(LAB_READY) ## The notebooks in JupyterLab, in your browser [OPTIONS=--no-browser]
	@$(BIN)/python -m jupyterlab --LabApp.default_url=/lab/tree/notebooks $(OPTIONS)

# torch comes first, so that nothing else chooses a build of it.
$(BENCH_READY): testcases/benchmarks/trl.lock
	@echo "installing TRL into $(BENCH) (once) ..."
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' $<)
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $(BENCH_READY)

bench: $(READY) $(BENCH_READY) ## How fast the trainer is: against TRL 1.12.0, the bare model passes and the machine
	@$(BIN)/python -m testcases.benchmarks.trainer
	@$(BIN)/python -m testcases.benchmarks.costs
	@$(BIN)/python -m testcases.benchmarks.gpu

lint: $(READY) ## Style (ruff) and types (mypy)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check solutions testcases tiny_models book
	@$(BIN)/mypy
