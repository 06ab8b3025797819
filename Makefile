# Every target does all of its set-up by itself; a second run installs nothing.
.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' Makefile)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_READY := $(BENCH_VENV)/.ready
LAB_READY := $(VENV)/.ready-lab

PRESET ?= $(if $(POLICY),hub,tiny)
STACK ?= solutions
SEED ?= 0
demo: OUT ?= runs/demo
contest: OUT ?= runs/contest
SEEDS ?= 1
KL_COEF ?=
POLICY ?=
REWARD ?=
PROMPTS ?=
SET ?=
RESUME ?=
OPTIONS ?=
SUBMISSIONS ?=
JOBS ?=
ROSTER ?=
SANDBOX ?=
LIMITS ?=
LESSONS ?=
POINTS ?=
ASSIGNMENT ?=
DRY ?=
TESTS ?= testcases
MARKS ?=
ASSIGNED = --assignment '$(ASSIGNMENT)' --lessons '$(LESSONS)' --points '$(POINTS)'
# On a machine with LC_ALL=C as well, names and texts are read and written as everywhere else.
export PYTHONUTF8 = 1

help: ## Show the commands
	@echo "PPO by Hand: build PPO for RLHF one tested block at a time."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv and install everything (every other command does this, too)

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
  { echo "error: expected Python 3.11 or newer, got $$($(PYTHON) --version 2>&1 || true); install it and run: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }; \
  $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
  { echo "error: this Python has no venv module; install it (Debian and Ubuntu: apt install python3-venv) and run make again"; exit 1; }
# An environment without its mark of being ready was left by an interrupted installation: it is made anew.
INSTALL = $(CHECK_PYTHON); test -f $(1)/.ready || $(PYTHON) -m venv --clear $(1); rm -f $(1)/.ready; \
  $(1)/bin/python -m pip install --disable-pip-version-check --no-input $(2) || \
  { echo "error: pip could not fill $(1), and its last lines above say why. It needs a package index (behind a proxy: HTTPS_PROXY=http://host:port) and 2 GB in $(1); run make again afterwards"; exit 1; }; \
  touch $(1)/.ready

$(READY): requirements.lock
	@echo "installing what the course needs into $(VENV), once"
	@$(call INSTALL,$(VENV),-r requirements.lock)

# These are apart, because the exercises and the demo need neither a browser nor the book.
$(LAB_READY): requirements-lab.lock $(READY)
	@echo "installing JupyterLab and Sphinx into $(VENV), once"
	@$(call INSTALL,$(VENV),-c requirements.lock -r requirements-lab.lock)
	@touch $(LAB_READY)

CHECK_STACK = test -f '$(STACK)/demo/__init__.py' || \
  { echo "error: expected STACK to be solutions or tutorial, got '$(STACK)' without demo/__init__.py; make stubs writes it"; exit 1; }

first: $(READY) ## Run PPO on one screen: lesson 0 in 15 seconds [KL_COEF=0: without the penalty]
	@$(BIN)/python -m tutorial.lesson00_one_screen $(if $(KL_COEF),--kl-coef '$(KL_COEF)')

# A variable, since a comma would end an argument of $(if).
DEMO_SAYS = echo "make demo: SFT, a reward model, PPO with and without the KL penalty$(if $(filter tiny,$(PRESET)),; about a minute on two cores)"

demo: $(READY) ## Train SFT, a reward model and PPO on this machine [PRESET=tiny SEED=0 OUT=runs/demo RESUME=1; your lessons: STACK=tutorial; your models: POLICY= REWARD= PROMPTS= SET= OPTIONS=]
	@$(if $(filter hub,$(PRESET)),true,$(DEMO_SAYS))
	@$(CHECK_STACK)
	@$(BIN)/python -u -m $(STACK).demo$(if $(filter hub,$(PRESET)),.hub --policy '$(POLICY)' --reward '$(REWARD)' \
	  --prompts '$(PROMPTS)' --set '$(SET)' $(OPTIONS), --preset '$(PRESET)') --seed '$(SEED)' --out '$(OUT)' \
	  $(if $(filter-out 0,$(RESUME)),--resume)

# Three processes for two cores: some tests wait, for a browser or for the end of somebody's time.
# They and all that they start compile the course once, also where the environment asks for no bytecode.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(TESTS) --subject=solutions \
  -rs -n 3 --dist loadfile --no-loadscope-reorder
QUICK = not slow or smoke
# Style, spelling, imports that run one way, and stubs that agree with the solutions.
QUICK_CHECKS = $(BIN)/ruff check --quiet . && $(BIN)/codespell && \
  { rooms=$$($(BIN)/lint-imports --no-logo) || { echo "$$rooms"; false; }; } && $(BIN)/python -m testcases.course.stubs --check

test: $(READY) $(LAB_READY) ## Check that this clone works, in three minutes (students: run pytest instead)
	@echo "make test: the suites, the quick wrong answers and each system once; about 3 minutes on two idle cores"
	@$(QUICK_CHECKS)
	@$(PYTEST) -m '$(QUICK)'

test-all: $(READY) $(LAB_READY) ## Check everything that must pass before a change lands
	@echo "make test-all: every check of the course; about eleven minutes on two idle cores"
	@$(QUICK_CHECKS)
	@$(PYTEST) $(if $(MARKS),-m '$(MARKS)')

progress: $(READY) ## Show how far you are, lesson by lesson
	@$(BIN)/python -m testcases.harness.student.progress

# A lesson as hint and reset know it: 4, 04, lesson04 or lesson04_gae.
WATCHED = $(sort $(filter testcases/lesson%,$(wildcard testcases/lesson$(shell printf %02d '$(LESSON)' 2>/dev/null)_* \
  testcases/lesson$(LESSON)_* testcases/$(LESSON)_* testcases/$(LESSON))))

watch: $(READY) ## Run a lesson's tests at each save, until Ctrl-C [LESSON=4]
	@test -n '$(WATCHED)' || { echo "error: expected a lesson, got '$(LESSON)'; run: make watch LESSON=4"; exit 1; }
	@$(BIN)/watchfiles --filter python '$(BIN)/python -m pytest $(WATCHED)' tutorial

contest: $(READY) ## Compare PPO with RLOO, GRPO, DAPO, DPO and best of n, by gold reward [SEEDS=1 OUT=runs/contest STACK=tutorial]
	@echo "make contest: each method from the same SFT model$(if $(filter 1,$(SEEDS)),; about two minutes on two cores)"
	@$(CHECK_STACK)
	@OMP_NUM_THREADS=1 $(BIN)/python -m $(STACK).contest --seeds '$(SEEDS)' --out '$(OUT)'

hint: $(READY) ## Show one more hint [LESSON=4] [EXERCISE=compute_gae]
	@$(BIN)/python -m testcases.harness.student.hint $(LESSON) $(if $(EXERCISE),--exercise $(EXERCISE))

reset: $(READY) ## Start a lesson afresh (it asks first, and keeps a copy) [LESSON=4]
	@$(BIN)/python -m testcases.harness.student.reset $(LESSON)

solution: $(READY) ## Show your code and the course's for each exercise that has passed [LESSON=4]
	@$(BIN)/python -m testcases.harness.student.solution $(LESSON)

# A name that it doesn't know, such as SUBMISSION or LESSON, would let it grade something else without a word.
CHECK_TAKES := SUBMISSIONS OUT ROSTER LESSONS POINTS ASSIGNMENT DRY JOBS SANDBOX LIMITS PYTHON VENV
GIVEN = $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))

check: $(READY) ## Grade your lessons, or a folder [SUBMISSIONS=dir OUT=runs/check ROSTER= LESSONS="1 3" POINTS=20 ASSIGNMENT= DRY=1 JOBS= SANDBOX= LIMITS=]
	@$(if $(filter-out $(CHECK_TAKES),$(GIVEN)),echo "error: make check doesn't know $(filter-out $(CHECK_TAKES),$(GIVEN)). It knows $(CHECK_TAKES)"; exit 1)
	@$(BIN)/python -m testcases.grader '$(SUBMISSIONS)' --out '$(OUT)' --jobs '$(JOBS)' $(ASSIGNED) \
	  --roster '$(ROSTER)' --sandbox '$(SANDBOX)' --limits '$(LIMITS)' --dry '$(DRY)'

stubs: $(READY) ## Write tutorial/ from the solution regions of solutions/
	@$(BIN)/python -m testcases.course.stubs

figures: $(READY) ## Draw the figures of the lesson texts
	@$(BIN)/python -m book.figures

notebooks: $(READY) ## Run all notebooks and refresh their outputs
	@echo "make notebooks: runs all of them; about two minutes on two cores"
	@$(BIN)/python -m testcases.course.notebooks

# In a container one is root; the news window asks the network.
LAB_OPTIONS := --allow-root --LabApp.default_url=/lab/tree/notebooks --LabApp.news_url=None \
  --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate

lab: $(LAB_READY) ## Open the notebooks in JupyterLab, in your browser [OPTIONS=--no-browser]
	@$(BIN)/python -m jupyterlab $(LAB_OPTIONS) $(OPTIONS)

BOOK := runs/book

book: $(LAB_READY) ## Build the course as a site in runs/book (python -m http.server -d runs/book serves it)
	@echo "make book: the course as a site, runs/book/index.html; half a minute"
	@$(BIN)/python -m book.stage
	@OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W -q -j auto -c book -b html -d $(BOOK)-doctrees . $(BOOK)
	@cp $(BOOK)/README.html $(BOOK)/index.html

$(BENCH_READY): testcases/benchmarks/trl.lock
	@echo "installing TRL, to compare with, into $(BENCH_VENV), once"
	@$(call INSTALL,$(BENCH_VENV),-r testcases/benchmarks/trl.lock)

bench: $(READY) $(BENCH_READY) ## Measure how fast the trainer is, beside TRL 1.12.0 and the bare passes
	@echo "make bench: the trainer beside TRL's; about three minutes on two idle cores"
	@$(BIN)/python -m testcases.benchmarks.trainer

# Of an interpreter that somebody names all packages are used as they are, its torch for the card first of all.
GPU_VENV := .venv-gpu
WHEELS ?=
MINUTES ?= 9
$(GPU_VENV)/.ready:
	@$(CHECK_PYTHON); $(PYTHON) -m venv --clear $(GPU_VENV)
	@$(PYTHON) -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")' \
	  > "$$($(GPU_VENV)/bin/python -c 'import site; print(site.getsitepackages()[0])')/outer.pth"
	@lacking=$$($(GPU_VENV)/bin/python -m testcases.benchmarks.lacking); \
	  test -z "$$lacking" || $(GPU_VENV)/bin/python -m pip install --disable-pip-version-check --no-input $$lacking
	@test -z '$(WHEELS)' || $(GPU_VENV)/bin/python -m pip install --disable-pip-version-check --no-index \
	  --find-links '$(WHEELS)' trl==1.12.0 || echo "note: expected TRL 1.12.0 and what it needs in $(WHEELS), and something is missing, so ours is measured alone"
	@touch $@

GPU_NEEDS := $(if $(filter command,$(firstword $(origin PYTHON))),$(GPU_VENV)/.ready,$(READY) $(BENCH_READY))

gpu: $(GPU_NEEDS) ## Measure TRL 1.12.0 and ours at real sizes on a GPU, then run the demo of preset gpt2; call it again to continue [PYTHON= WHEELS= MINUTES=9]
	@$(dir $(firstword $(GPU_NEEDS)))bin/python -m testcases.benchmarks.gpu --minutes '$(MINUTES)'

lint: $(READY) ## Check style (ruff), spelling (codespell), imports (import-linter) and types (mypy)
	@echo "make lint: ruff, codespell, import-linter, then mypy; half a minute the first time"
	@$(BIN)/codespell
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check solutions testcases tiny_models ppo_by_hand book
	@$(BIN)/mypy
