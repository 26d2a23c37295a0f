# make demo, test, check, docs, bench: each sets up what it needs in .venv first; make oldest in .venv-oldest.
# The tests run on all cores, so each process keeps BLAS to one; they start many processes, which need bytecode.
# Relative paths only, so that a checkout may lie in a folder with a space in its name.
PYTHON ?= python3
PY := .venv/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
.DEFAULT_GOAL := help
.PHONY: help demo test oldest check docs bench lock clean

help:
	@echo "make demo    fit built-in real data and show what was found"
	@echo "make test    run all tests"
	@echo "make oldest  run the core tests with the oldest versions that pyproject.toml allows"
	@echo "make check   lint, types, import contracts"
	@echo "make docs    build the site in docs/_build/html, and check its links and names"
	@echo "make bench   measure speed and memory beside scikit-learn and Spark (an hour or two)"
	@echo "make lock    note the versions that are installed as those that were tested"
	@echo "make clean   remove what these made, .venv included"

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dbmd needs Python 3.11 or newer; $(PYTHON) is older. Name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | $(PY)
	$(INSTALL) --editable ".[test,check]"
	touch $@

# The demo needs neither a cluster nor the tools of the tests. Where everything is installed, there is nothing to do.
# Python compiles what the demo imports; to compile all the rest as well would take as long as the installation itself.
.venv/demo-installed: pyproject.toml | $(PY)
	$(INSTALL) --no-compile --editable ".[report]"
	touch $@

demo: $(if $(wildcard .venv/installed),.venv/installed,.venv/demo-installed)
	$(PY) -m dbmd demo

test: .venv/installed
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest -n auto --dist loadgroup --slow

oldest:
	.ci/core-tests .venv-oldest $(PYTHON) --resolution lowest-direct

check: .venv/installed
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-cache

.venv/docs-installed: pyproject.toml .venv/installed
	$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch .venv/docs-installed

# All pages anew: what Sphinx finds wrong with a page it says only when it reads it. Examples that have not changed are not run again.
docs: .venv/docs-installed
	rm -rf docs/_build docs/api
	OPENBLAS_NUM_THREADS=1 $(PY) -m sphinx --fail-on-warning --keep-going --nitpicky --quiet docs docs/_build/html
	$(PY) docs/check.py docs/_build/html

bench: .venv/installed
	$(PY) -m benchmarks

# After make test has passed, in a fresh .venv: what else is installed there would be noted, too.
lock: .venv/installed .venv/docs-installed
	mkdir -p requirements
	echo "# What the tests last passed with; make lock writes it. pip install -c requirements/tested.txt '.[anndata,dask]'" > requirements/tested.txt
	$(PY) -m pip freeze --exclude-editable >> requirements/tested.txt

clean:
	rm -rf .venv .venv-* demo docs/_build docs/api docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
