# Needs python3 (3.11 or newer, with venv) and make; everything else goes into .venv.

# Another interpreter gets an environment of its own: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# What is installed grows in layers, each when a target first needs it: the demo needs a few
# small packages, Spark alone more than a gigabyte. A file for each layer says that it is there.
CLI    := $(VENV)/.layer-cli
DEV    := $(VENV)/.layer-dev
LIVE   := $(VENV)/.layer-live
SPARK  := $(VENV)/.layer-spark
DEPLOY := $(VENV)/.layer-deploy
DOCS   := $(VENV)/.layer-docs
LAYERS := $(CLI) $(DEV) $(LIVE) $(SPARK)

# How many seeds `make sim` runs, and how many of them are part of `make test`.
SIM_SEEDS ?= 1000
TEST_SEEDS ?= 80
# The same for trees of scopes.
SIM_SCOPE_SEEDS ?= 300
TEST_SCOPE_SEEDS ?= 10
# The same for the engine's trials on a scope.
SIM_TWIN_SEEDS ?= 200
TEST_TWIN_SEEDS ?= 10
# How long mishaps happen in `make soak`, in seconds.
SOAK_SECONDS ?= 1800
# How often `make soak-spark` kills.
SOAK_KILLS ?= 20
# How `make peers` measures.
PEERS_FLAGS ?= --receivers 4 --size 1000 --seconds 3 --rounds 3

# Tests start hundreds of short processes and are collected several times: without Python's
# caches of compiled files, which some environments turn off, that alone takes minutes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# One pip at a time; tests run in parallel by themselves. `test` lets two targets run side by
# side where everything is installed already.
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif
TWO := $(MAKE) --no-print-directory -j 2 SIDE_BY_SIDE=yes
.PHONY: help setup demo test lint types unit seeds seeds-aside integration spark wheels deploy-check docs docs-blocks sim bench peers soak soak-spark clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(LAYERS) ## create .venv and install quicksilver with all that tests need into it

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "quicksilver needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "python3 lacks venv: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(CLI): EXTRAS = cli
$(DEV): EXTRAS = dev,cli,metrics,analysis,record
$(LIVE): EXTRAS = live,editor
$(SPARK): EXTRAS = spark
$(DOCS): EXTRAS = docs
$(DEPLOY): EXTRAS = deploy

# Python itself is no reason to install again: its file is older or newer by chance.
$(LAYERS) $(DEPLOY) $(DOCS): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@

demo: $(CLI) ## a local cluster with injected loss and a crash, in which nothing is missing
	$(BIN)/quicksilver demo

test: setup ## everything a change must pass
	@$(TWO) --output-sync=target lint types
	@$(MAKE) --no-print-directory unit
	@$(TWO) integration seeds-aside
	@$(MAKE) --no-print-directory spark

lint: $(DEV) ## style, format and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: setup ## mypy, strict
	$(BIN)/mypy

unit: setup ## tests that need no network, in parallel
	$(BIN)/pytest -q -n auto --maxprocesses=8 --dist worksteal -m 'not integration and not namespaces and not spark'

seeds: $(CLI) ## the first seeds of the simulator, the same for everybody
	$(BIN)/quicksilver sim --seeds $(TEST_SEEDS)
	$(BIN)/quicksilver sim --scopes --seeds $(TEST_SCOPE_SEEDS)
	$(BIN)/quicksilver sim --as-scopes --seeds $(TEST_TWIN_SEEDS)

# Seeds only compute, so they take what another target leaves of the processors, and no more:
# `nice` keeps them from delaying tests that use real time. They print when they are done.
seeds-aside: $(CLI)
	@nice -n 19 $(MAKE) --no-print-directory seeds > $(VENV)/seeds.txt 2>&1; \
	  status=$$?; cat $(VENV)/seeds.txt; exit $$status

# They wait more than they work, and each has ports and a network of its own: three at a time.
integration: setup ## tests with real sockets and processes
	$(BIN)/pytest -q -n 3 --dist worksteal --durations=10 -m '(integration or namespaces) and not spark'

deploy-check: $(DEV) $(DEPLOY) ## container, systemd and Kubernetes files, with the tools that check them
	$(BIN)/pytest -q -rs tests/deploy

wheels: setup ## build the wheel, and try it in fresh environments of Python 3.11 to 3.13
	QUICKSILVER_PYTHONS="3.11 3.12 3.13" $(BIN)/pytest -q -rs tests/install

spark: setup ## tests with real Spark, which share one session
	$(BIN)/pytest -q --durations=10 -m spark

docs: $(DOCS) ## the pages and the Python API as a site in build/site; broken links fail
	$(BIN)/python docs/site.py

docs-blocks: setup ## every block of code of every page, the long ones too; prints the list
	$(BIN)/python -m tests.docs.blocks

sim: $(CLI) ## seeds of mixed faults over varied clusters, in virtual time (SIM_SEEDS=1000)
	$(BIN)/quicksilver sim --seeds $(SIM_SEEDS)
	$(BIN)/quicksilver sim --scopes --seeds $(SIM_SCOPE_SEEDS)
	$(BIN)/quicksilver sim --as-scopes --seeds $(SIM_TWIN_SEEDS)

bench: $(CLI) ## quicksilver's own benchmarks
	$(BIN)/quicksilver bench suite

peers: $(CLI) ## the same work through Cyclone DDS, ZeroMQ, Zenoh and JGroups, in one table
	bash bench/peers/setup.sh
	$(BIN)/python -m bench.peers.run $(PEERS_FLAGS)

soak: $(CLI) ## real processes among kills, freezes, cuts and restarts, every message checked (SOAK_SECONDS=1800)
	$(BIN)/quicksilver soak --seconds $(SOAK_SECONDS)

soak-spark: setup ## every Spark test: drivers and workers killed many times, a cluster (SOAK_KILLS=20)
	QUICKSILVER_SOAK=1 QUICKSILVER_KILLS=$(SOAK_KILLS) $(BIN)/pytest -q -s -m spark

clean: ## remove what was built, .venv included
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
