# Every target sets up what it needs in .venv and leaves stamps there, so that a second run starts at once and offline.
#
#   make demo    a small feed against a thousand subscriptions, on local Spark
#   make demo-alerts  an hour of alerts that change, through a broker and Spark: who is told what
#   make test    all tests
#   make test-fast  before each commit: tests without Spark, services and the lab, none over a second (TEST_SECONDS_MAX)
#   make test-slow  the tests of the package that test-fast leaves out
#   make test-tables  the test of Delta and Iceberg tables, for which 600 MB are fetched once
#   make bench   the benchmarks, into benchmarks/RESULTS.md
#   make lint    rustfmt, clippy, ruff, mypy
#   make fuzz    every fuzz target for FUZZ_SECONDS, 20 if not set
#   make docs    the documentation, into build/docs
#   make man     the page on the command line as a manual page, build/man/twigcast.1
#   make figures the published figures at small scale, and the report on them, into build/figures
#   make wheel   a wheel for this machine, and an sdist, into dist/
#   make dist-check  the wheel in empty environments, with each extra (PYTHONS='python3.11 python3.13': with several)
#   make lock    renew requirements/*.txt (UPGRADE=--upgrade: to newer versions)
#   make clean   remove what the targets made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

.DEFAULT_GOAL := help
.PHONY: help demo demo-alerts test test-fast test-slow test-tables figures bench lint fuzz docs man wheel dist-check lock clean

help:
	@sed -n 's/^#   //p' Makefile

# --- environment ------------------------------------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; make PYTHON=...")'
	@echo "making a Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run-installed: requirements/run.txt | $(BIN)/python
	@echo "installing what Twigcast needs to run and to build: Spark is large, so this takes a minute or two"
	@$(PIP_INSTALL) -r requirements/run.txt
	@touch $@

$(VENV)/.dev-installed: requirements/dev.txt $(VENV)/.run-installed
	@echo "installing the tools for tests, checks and documentation"
	@$(PIP_INSTALL) -r requirements/dev.txt
	@touch $@

# The compiled module, an optimised build; Python sources are used in place.
$(VENV)/.built: $(RUST_SOURCES) pyproject.toml $(VENV)/.run-installed
	@echo "building the compiled module: about a minute, the first time"
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --no-index --editable .
	@touch $@

# --- work -------------------------------------------------------------------------------------------------------------

demo: $(VENV)/.built
	@$(BIN)/python -m twigcast.demo

demo-alerts: $(VENV)/.built
	@$(BIN)/python -m twigcast.demo.alerts

# PostgreSQL and Chromium for the tests of the broker, Maven to fetch Kafka for those of the pipeline: looked for, and
# installed where that is possible.
$(VENV)/.services: tests/services/install.sh | $(BIN)/python
	tests/services/install.sh
	@touch $@

# The fast tests in parallel, on slow machines too, then all others: those of generated input in parallel, those that start
# processes and services file by file in parallel, since they wait for much, and at last what measures time, alone.
test:
	@$(MAKE) --no-print-directory test-fast TEST_SECONDS_MAX=30
	@$(MAKE) --no-print-directory test-slow

TEST_SECONDS_MAX ?= 1
SLOW := slow or spark or services or lab or sleep

test-fast: $(VENV)/.built $(VENV)/.dev-installed
	cargo test --workspace --locked --quiet $(CARGO_FLAGS)
	$(BIN)/python -m pytest --quiet --numprocesses auto --seconds-max $(TEST_SECONDS_MAX) -m 'not ($(SLOW))' $(PYTEST_FLAGS)

test-slow: $(VENV)/.built $(VENV)/.dev-installed $(VENV)/.services
	@tests/services/kafka.sh
	$(BIN)/python -m pytest --numprocesses auto -m '$(SLOW)' tests/property $(PYTEST_FLAGS)
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup -m '($(SLOW)) and not alone' --ignore tests/property \
		--durations 20 $(PYTEST_FLAGS)
	$(BIN)/python -m pytest -m alone $(PYTEST_FLAGS)

# Apart from the others, since a second Spark is fetched for it.
test-tables: $(VENV)/.built $(VENV)/.dev-installed $(VENV)/.services
	@PYTHON=$(BIN)/python tests/services/tables.sh
	$(BIN)/python -m pytest tests/spark/sinks/test_tables.py $(PYTEST_FLAGS)

bench: $(VENV)/.built $(VENV)/.dev-installed
	$(BIN)/python -m benchmarks.run

lint: $(VENV)/.dev-installed
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy python tests $(wildcard benchmarks)

FUZZ_SECONDS ?= 20
FUZZ_SEED ?= 0

fuzz: $(VENV)/.built $(VENV)/.dev-installed
	PYTHON=$(BIN)/python FUZZ_SEED=$(FUZZ_SEED) fuzz/run.sh $(FUZZ_SECONDS)

docs: $(VENV)/.built $(VENV)/.dev-installed
	$(BIN)/sphinx-build --fail-on-warning --keep-going -q -b html docs build/docs
	@echo "documentation: build/docs/index.html"

man: $(VENV)/.built $(VENV)/.dev-installed
	$(BIN)/sphinx-build -q -b man docs build/man
	@echo "manual page: build/man/twigcast.1; man -l build/man/twigcast.1 shows it"

figures: $(VENV)/.built $(VENV)/.dev-installed
	$(BIN)/twigcast experiment run --scale small all --results build/figures
	$(BIN)/twigcast experiment report --results build/figures --output build/figures/report.html

wheel: $(VENV)/.run-installed
	rm -rf dist
	$(BIN)/maturin build --release --locked --out dist
	$(BIN)/maturin sdist --out dist

PYTHONS ?= $(BIN)/python

dist-check: $(VENV)/.run-installed
	$(BIN)/python tests/packaging/check.py $(foreach python,$(PYTHONS),--python $(python)) $(DIST_CHECK_FLAGS)

lock: build/lock/bin/uv
	PATH="$(abspath build/lock/bin):$$PATH" requirements/update.sh $(UPGRADE)

build/lock/bin/uv:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<1'

clean:
	rm -rf $(VENV) target build dist demo-output .mypy_cache .ruff_cache .pytest_cache python/twigcast/_core*.so
