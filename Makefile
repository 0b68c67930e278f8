# Each target makes .venv and installs what it needs.  PYTHON= names another interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

USERS ?= 180
RATE ?= 30
DURATION ?= 60s
PLAN ?= scenarios/analysts.toml
MOCK_ARGS ?=
TESTS_AT_ONCE ?= 3

.PHONY: help demo test browser ab bench bench-quick capacity conformance lint types clean

help:  ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "loadgen needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $(STAMP)

demo: $(STAMP)  ## 180 analysts against the bundled mock agent: verdict and report (USERS= RATE= DURATION= MOCK_ARGS=)
	$(BIN)/locust -f scenarios/analysts.py --plan $(PLAN) --headless \
		-u $(USERS) -r $(RATE) -t $(DURATION) --mock-args '$(MOCK_ARGS)'

test: $(STAMP)  ## The test suite, three tests at a time (TESTS_AT_ONCE=)
	$(BIN)/python -m pytest -n $(TESTS_AT_ONCE) --dist worksteal

browser: $(STAMP)  ## A Chromium for tests/browser where there is none: Debian's, or Playwright's own
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && apt-get update -q && apt-get install -q -y chromium; } \
		|| $(BIN)/playwright install chromium \
		|| echo 'no Chromium can be installed here: the tests in tests/browser will be skipped'

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

ab: $(STAMP)  ## The gate gates itself: two equal mocks, then one that is 25 % slower
	BIN=$(BIN) .ci/ab/run

bench: $(STAMP)  ## Accuracy, cost and memory of the generator, beside other clients (some minutes, a quiet machine)
	$(BIN)/python -m tests.bench

bench-quick: $(STAMP)  ## The same benchmarks, short: do they run, do the ratios have the right sign
	$(BIN)/python -m tests.bench --quick

conformance: $(STAMP)  ## The scenarios against the real NeMo Agent Toolkit (installed from the package index)
	$(BIN)/python -m pytest tests/conformance --conformance

capacity: $(STAMP)  ## Searches where the capacity is known, and of the real toolkit (most of an hour, a quiet machine)
	$(BIN)/python -m pytest tests/conformance/test_conformance_capacity.py --conformance --searches

clean:  ## Remove what the targets made, but for results
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
