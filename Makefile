# Each target makes .venv and installs what it needs when that is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest
# The Well's format checker is in its repository alone: without it and without a network its test is skipped
CHECKER := https://raw.githubusercontent.com/PolymathicAI/the_well/v1.2.0/scripts/check_thewell_formatting.py
CHECKER_SHA256 := 71b1f4fea7321c10bb76110ac4392abd40d5c59beae9eea172f732324862b93c
SPHINX := OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet
.DEFAULT_GOAL := help

FAULTS ?= 100
CASES ?= 5000
SEED ?= 0
BASE ?= 2dac755

.PHONY: help install demo test test-all test-faults fuzz check docs bench results size clean

help:  ## Print the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.%: $(VENV)/.made pyproject.toml constraints.txt
	$(INSTALL) -e '.$(if $(filter run,$*),,[$*])'
	@touch $@

$(VENV)/the_well/check_thewell_formatting.py: $(VENV)/.made
	@mkdir -p $(@D)
	-@curl --fail --silent --show-error --location --max-time 60 --output $@.part $(CHECKER) \
	  && echo '$(CHECKER_SHA256)  $@.part' | sha256sum --check --quiet && mv $@.part $@

install: $(VENV)/.run  ## Install pdno into .venv

demo: $(VENV)/.export  ## Show a trained operator, draw every problem, train PDNO and FNO, write a report
	$(BIN)/pdno demo --out demo

test: $(VENV)/.test  ## Run the tests (minutes)
	$(PYTEST) -n 2 tests

test-all: $(VENV)/.test,well $(VENV)/the_well/check_thewell_formatting.py  ## Run all tests, the slow ones too
	PYTHONPATH="$(CURDIR)/$(VENV)/the_well" $(PYTEST) -n 2 -m 'slow or not slow' tests

test-faults: $(VENV)/.test  ## Inject FAULTS=100 faults into work on files, with SEED=0
	$(BIN)/python tests/faults/inject.py --faults $(FAULTS) --seed $(SEED)

fuzz: $(VENV)/.test  ## Read CASES=5000 damaged files of all kinds, with SEED=0
	$(BIN)/python tests/fuzz/fuzz.py --cases $(CASES) --seed $(SEED)

check: $(VENV)/.dev  ## Lint, types, tests, doctests, examples, manual
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -n 2 tests
	$(PYTEST) --doctest-modules pdno
	$(SPHINX) docs docs/_build/html

docs: $(VENV)/.docs  ## Build the manual, docs/_build/html/index.html
	$(SPHINX) docs docs/_build/html

bench: $(VENV)/.bench  ## Measure speed and memory against other implementations
	$(BIN)/pdno bench --out bench

results: $(VENV)/.run  ## Write tables and figures of README and manual from results/
	$(BIN)/python tools/results.py

size:  ## Print the size of the package and where it is hard to read, beside commit BASE
	$(PYTHON) tools/measure.py --compare $(BASE)

clean:  ## Remove .venv, caches, demo, bench and the manual
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo bench docs/_build
