# Two commands do everything, on a machine with Python 3.11+ and make (uv is used where there is one):
#   make demo    the main job, end to end, offline
#   make test    the tests
# Others: check (= lint types river tidy) fix cover floors sim soak bench bench-peers docs. `.venv` is made and kept up by three stamps: core, dev, full.

PYTHON ?= python3
WORKERS ?= 2
SEEDS ?= 20000

UV := $(shell command -v uv)
PY := .venv/bin/python
# Bytecode is kept, also where the machine says not to: the tests start some hundred interpreters, and three collect them all.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n $(WORKERS) --dist worksteal
PURE := src/polyloop/kernel/*,src/polyloop/contract/*

.PHONY: demo test check lint types river tidy fix cover floors sim soak bench bench-peers docs
.NOTPARALLEL:

demo: .venv/core
	@.venv/bin/polyloop demo

test: .venv/dev
	@$(PYTEST)

check: lint types river tidy

lint: .venv/dev
	@.venv/bin/ruff check --quiet --output-format concise
	@.venv/bin/ruff format --check --quiet

types: .venv/dev
	@.venv/bin/basedpyright --pythonpath $(PY) --level error

river: .venv/dev
	@.venv/bin/lint-imports --no-logo

tidy: .venv/core
	@$(PY) tools/tidy.py

fix: .venv/dev
	@.venv/bin/ruff check --fix --quiet; .venv/bin/ruff format

# Runs the tests under branch coverage; `floors` alone judges what the last run measured.
cover: .venv/dev
	@.venv/bin/coverage erase
	@.venv/bin/coverage run -m pytest -q -n $(WORKERS)
	@.venv/bin/coverage combine --quiet
	@$(MAKE) --no-print-directory floors

floors: .venv/dev
	@.venv/bin/coverage report --include='$(PURE)' --fail-under=100; low=$$?; \
	.venv/bin/coverage report --omit='$(PURE)' --fail-under=95 && exit $$low

sim: .venv/core
	@$(PY) -m polyloop.testing.sim --seeds $(SEEDS)

soak: .venv/dev
	@POLYLOOP_SOAK=1 $(PYTEST) --timeout 1800

bench: .venv/full
	@$(PY) benchmarks/run.py

# The peers live in an environment of their own: they pin what we do not.
bench-peers: .bench/ready
	@.bench/bin/python benchmarks/peers.py --json .bench/peers.json

.bench/ready: benchmarks/harness/requirements.txt
	@echo 'Setting up .bench ...'
	@$(PYTHON) -m venv .bench
	@.bench/bin/python -m pip install -qq --disable-pip-version-check -c benchmarks/harness/requirements.txt -e . \
	  langgraph langgraph-checkpoint-sqlite dbos pydantic-ai-slim 'psycopg[binary]'
	@touch $@

docs: .venv/core
	@$(PY) tools/reference.py

.venv/core: EXTRAS =
.venv/dev: EXTRAS = [dev]
.venv/full: EXTRAS = [full]
.venv/core .venv/dev .venv/full: pyproject.toml | .venv/bin/python
	@echo 'Setting up .venv ($(@F)) ...'
	@$(if $(UV),uv pip install -q --python $(PY),$(PY) -m pip install -qq --disable-pip-version-check) -e '.$(EXTRAS)'
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("polyloop needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@$(if $(UV),uv venv -q --python $(PYTHON) .venv,$(PYTHON) -m venv .venv) || { rm -rf .venv; exit 1; }
