# Needs python3 (3.11 or newer, with venv) and make; everything else goes into .venv.

# Another interpreter gets an environment of its own: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# How many seeds `make sim` runs, and how many of them are part of `make test`.
SIM_SEEDS ?= 1000
TEST_SEEDS ?= 80
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
.PHONY: help setup demo test lint types unit seeds integration spark sim bench peers soak soak-spark clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install quicksilver with its tools into it

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "quicksilver needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "python3 lacks venv: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,cli,metrics,spark,live]'
	@touch $@

demo: setup ## a local cluster with injected loss and a crash, in which nothing is missing
	$(BIN)/quicksilver demo

test: lint types unit seeds integration spark ## everything a change must pass

lint: setup ## style, format and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: setup ## mypy, strict
	$(BIN)/mypy

unit: setup ## tests that need no network, in parallel
	$(BIN)/pytest -q -n auto --maxprocesses=8 --dist worksteal -m 'not integration and not namespaces and not spark'

seeds: setup ## the first seeds of the simulator, the same for everybody
	$(BIN)/quicksilver sim --seeds $(TEST_SEEDS)

# They wait more than they work, and each has ports and a network of its own: three at a time.
integration: setup ## tests with real sockets and processes
	$(BIN)/pytest -q -n 3 --dist worksteal --durations=10 -m '(integration or namespaces) and not spark'

spark: setup ## tests with real Spark, which share one session
	$(BIN)/pytest -q --durations=10 -m spark

sim: setup ## seeds of mixed faults over varied clusters, in virtual time (SIM_SEEDS=1000)
	$(BIN)/quicksilver sim --seeds $(SIM_SEEDS)

bench: setup ## quicksilver's own benchmarks
	$(BIN)/quicksilver bench suite

peers: setup ## the same work through Cyclone DDS, ZeroMQ, Zenoh and JGroups, in one table
	bash bench/peers/setup.sh
	$(BIN)/python -m bench.peers.run $(PEERS_FLAGS)

soak: setup ## real processes among kills, freezes, cuts and restarts, every message checked (SOAK_SECONDS=1800)
	$(BIN)/quicksilver soak --seconds $(SOAK_SECONDS)

soak-spark: setup ## every Spark test: drivers and workers killed many times, a cluster (SOAK_KILLS=20)
	QUICKSILVER_SOAK=1 QUICKSILVER_KILLS=$(SOAK_KILLS) $(BIN)/pytest -q -s -m spark

clean: ## remove what was built, .venv included
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
