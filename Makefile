# A fresh clone needs Python 3.11 or later and nothing else: each target makes .venv and installs what it lacks.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)

# One thread per process: small matrices lose time to threads, and tests and studies run several processes.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Tests start many processes: each would compile all modules again where an environment forbids to keep them.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test quick browser soak oldest lint format docs bench paper clean

demo: $(VENV)/.installed ## a tour of about a minute
	$(BIN)/flm demo

test: $(VENV)/.installed-test ## everything but rivals and timings
	$(PYTEST) -m "not bench and not soak and not browser"

quick: $(VENV)/.installed-test ## the inner loop
	$(PYTEST) -m "not bench and not soak and not slow and not browser"

browser: $(VENV)/.installed-test-browser ## pages and the studio in the system's Chromium; skipped where there is none
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; \
	then $(BIN)/python -m pytest -m browser tests/browser tests/studio tests/report/test_live.py; \
	else echo "make browser is skipped: there is no Chromium on this machine (Debian's package is chromium)."; fi

lint: $(VENV)/.installed-test-lint ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.installed-test-lint ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs ## the pages, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

soak: $(VENV)/.installed-test-scale ## kills of processes and clusters
	$(BIN)/python -m pytest -m soak

oldest: ## the quick tests with the oldest versions that are supported, in .venv-oldest
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint scripts/oldest.txt --editable ".[test]"
	.venv-oldest/bin/python -m pytest -n $(WORKERS) -m "not bench and not soak and not slow and not browser"

bench: $(VENV)/.installed-test-bench-browser ## ratios against rivals
	$(BIN)/python benchmarks/series.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/pde.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python -m pytest -m bench || test $$? -eq 5 # 5: no such tests

paper: $(VENV)/.installed ## the paper's tables and figures beside ours, in short
	$(BIN)/flm paper --quick

clean: ## what the other targets made
	rm -rf $(VENV) site build dist .pytest_cache .ruff_cache .hypothesis

# Stamps: .installed has the package alone, .installed-a-b its extras a and b too. A changed pyproject.toml installs anew.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "flm needs Python 3.11 or later; none was found. Try make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

comma := ,
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(subst -,$(comma),$*)]"
	@touch $@
