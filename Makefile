# Each target makes .venv and installs what it needs when that is missing or stale.
PYTHON ?= python3
VENV := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
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
TESTS ?= tests

.PHONY: help install install-hooks demo test test-all test-faults test-lowest test-newest fuzz lint check docs links \
  bench results size api check-api wheel wheels audit try-wheel footprint sbom release-notes clean

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

test-lowest: .venv-lowest/.made  ## Run the tests with the lowest versions that pyproject.toml allows; KEEP=torch keeps one
	.venv-lowest/$(SCRIPTS)/python tools/lowest.py $(KEEP) > .venv-lowest/lowest.txt
	.venv-lowest/$(SCRIPTS)/python -m pip install --quiet --constraint .venv-lowest/lowest.txt -e '.[test]'
	OMP_NUM_THREADS=1 .venv-lowest/$(SCRIPTS)/python -m pytest -n 2 --deselect tests/test_constraints.py $(TESTS)

test-newest: .venv-newest/.made  ## Run the tests with the newest versions of everything
	.venv-newest/$(SCRIPTS)/python -m pip install --quiet --upgrade -e '.[test]'
	OMP_NUM_THREADS=1 .venv-newest/$(SCRIPTS)/python -m pytest -n 2 --deselect tests/test_constraints.py $(TESTS)

.venv-%/.made:
	$(PYTHON) -m venv $(@D)
	@touch $@

lint: $(VENV)/.dev  ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint check-api  ## Lint, types, tests, doctests, examples, manual
	$(PYTEST) -n 2 tests
	$(PYTEST) --doctest-modules pdno
	$(SPHINX) docs docs/_build/html

docs: $(VENV)/.docs  ## Build the manual, docs/_build/html/index.html
	$(SPHINX) docs docs/_build/html

links: $(VENV)/.docs  ## Request every address that the manual links to
	$(SPHINX) -b linkcheck docs docs/_build/links

install-hooks: $(VENV)/.dev  ## Run the linters before each commit
	$(BIN)/python -m pip install --quiet pre-commit
	$(BIN)/pre-commit install

bench: $(VENV)/.bench  ## Measure speed and memory against other implementations
	$(BIN)/pdno speed --out bench

results: $(VENV)/.run  ## Write tables and figures of README and manual from results/
	$(BIN)/python tools/results.py

size:  ## Print the size of the package and where it is hard to read, beside commit BASE
	$(PYTHON) tools/measure.py --compare $(BASE)

api: $(VENV)/.run  ## Write the public names and their parameters to tests/public_api.txt
	$(BIN)/python tools/api.py

check-api: $(VENV)/.run  ## Compare the public names and their parameters with that file
	$(BIN)/python tools/api.py --check

wheel: $(VENV)/.release  ## Build dist/*.tar.gz and a wheel for this machine from it; PDNO_NATIVE=0 for any machine
	rm -rf dist
	$(BIN)/python -m build

wheels: $(VENV)/.release  ## Build the wheels of this system for release, in the container of manylinux on Linux
	$(BIN)/python -m pip install --quiet cibuildwheel
	$(BIN)/python -m cibuildwheel --output-dir dist

audit: $(VENV)/.release  ## Check what `make wheel` has built
	$(BIN)/python -m twine check --strict dist/*.tar.gz dist/*.whl
	$(BIN)/check-wheel-contents dist/*.whl
	for wheel in dist/*linux*.whl; do [ ! -e "$$wheel" ] || $(BIN)/python -m auditwheel show "$$wheel" || exit 1; done

.venv-wheel/.installed: .venv-wheel/.made $(wildcard dist/*.whl)
	PIP_CONSTRAINT=constraints.txt .venv-wheel/$(SCRIPTS)/python -m pip install --quiet --force-reinstall dist/*.whl
	@touch $@

try-wheel: .venv-wheel/.installed  ## Install that wheel alone and run the README's example without a compiler
	.venv-wheel/$(SCRIPTS)/python tools/try_wheel.py

footprint: .venv-wheel/.installed  ## Print import times and sizes of an installation
	.venv-wheel/$(SCRIPTS)/python tools/footprint.py

sbom: .venv-wheel/.installed $(VENV)/.release  ## Write dist/pdno.cdx.json, a bill of materials of the wheel and its requirements
	$(BIN)/python -m cyclonedx_py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --of JSON --output-file dist/pdno.cdx.json .venv-wheel/$(SCRIPTS)/python

release-notes:  ## Print the changes of TAG=vX.Y.Z; fails unless it can be released
	@$(PYTHON) tools/release_notes.py $(TAG)

clean:  ## Remove .venv, caches, demo, bench and the manual
	rm -rf $(VENV) .venv-lowest .venv-newest .venv-wheel dist .pytest_cache .mypy_cache .ruff_cache .hypothesis demo bench docs/_build
