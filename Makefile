# The words of this project.  Each makes what it needs; nothing needs root, Docker or Go but e2e (Go).
#
#   make demo                 five regions on this machine, about 40 seconds
#   make test                 all tests but the long ones, with coverage
#   make PYTHON=python3.13 VENV=.venv-3.13 test-only
#
# Paths are relative throughout, so the folder may have spaces in its name.

SHELL := /bin/sh
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
MCS_API ?=
BIN := $(VENV)/bin
PY := "$(BIN)/python"
STAMP := $(VENV)/.made
QUICK := not e2e and not sim and not slow

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-only check format e2e e2e-all conformance sim sim-long exhaustive mutants bench bench-guard docs lock clean

help: ## Say what there is
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 12

$(STAMP): pyproject.toml requirements-dev.lock
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
	  echo "make: there is no $(PYTHON); install Python 3.11 or later, or name one: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $(PYTHON) is not Python 3.11 or later; name one that is: make PYTHON=python3.11" >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' || { \
	  echo "make: $(PYTHON) cannot make environments; install its venv part (Debian: python3-venv)" >&2; \
	  exit 1; }
	"$(PYTHON)" -m venv --clear "$(VENV)"
	$(PY) -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch "$(STAMP)"

demo: $(STAMP) ## Five regions on this machine: churn, a cut, a heal (ARGS="--seconds 20")
	$(PY) -m replicator demo $(ARGS)

test: $(STAMP) ## All tests but the long ones, with coverage thresholds
	$(PY) -m pytest -m "$(QUICK)" --cov --cov-report= $(ARGS)
	$(PY) -m coverage json --quiet -o coverage.json
	$(PY) tests/support/coverage_gate.py coverage.json

test-only: $(STAMP) ## The same tests without coverage
	$(PY) -m pytest -m "$(QUICK)" $(ARGS)

check: $(STAMP) ## Style, types and layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	"$(BIN)/lint-imports"

format: $(STAMP) ## Bring the code into shape
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

e2e: $(STAMP) ## Agents against real Kubernetes API servers (needs Go; built once)
	$(PY) -m pytest -m e2e tests/e2e $(ARGS)

e2e-all: e2e ## The same, then on the oldest supported Kubernetes
	REPLICATOR_E2E_KUBE=1.34.4 $(PY) -m pytest -m e2e tests/e2e $(ARGS)

conformance: $(STAMP) ## The official Multi-Cluster Services suite (MCS_API=clone of kubernetes-sigs/mcs-api)
	@test -n "$(MCS_API)" || { \
	  echo "make: the suite is in no registry; git clone https://github.com/kubernetes-sigs/mcs-api ../mcs-api," >&2; \
	  echo "make: then make conformance MCS_API=../mcs-api; docs/conformance.md tells the rest" >&2; exit 1; }
	$(PY) -m tests.conformance --suite "$(MCS_API)" $(ARGS)

sim: $(STAMP) ## Long simulations from seeds, in virtual time
	$(PY) -m pytest -m sim $(ARGS)

sim-long: $(STAMP) ## A hundred thousand schedules, in parts, with docs/sim-long.md (ARGS="--minutes 30")
	$(PY) -m tests.long $(ARGS)

exhaustive: $(STAMP) ## Every interleaving of small scopes, with the states counted
	$(PY) -m replicator.simulation.exhaustive $(ARGS)

mutants: $(STAMP) ## Break each rule once in a copy; some test must notice (docs/mutants.md; ARGS=--new)
	$(PY) -m tests.mutants $(ARGS)

bench: $(STAMP) ## Measure, and print the figures beside the targets
	$(PY) -m bench $(ARGS)

bench-guard: $(STAMP) ## Compare bytes, memory, calls and relative CPU with bench/baseline.json
	$(PY) -m bench.guard --cost $(ARGS)

docs: $(STAMP) ## The manual as web pages, in site/
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

lock: $(STAMP) ## Renew requirements-dev.lock from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --no-annotate \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --upgrade --quiet --output-file requirements-dev.lock

clean: ## Remove what was made here
	rm -rf .venv .venv-* build dist site *.egg-info coverage.json .coverage .coverage.* htmlcov
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
