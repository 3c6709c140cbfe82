# Each target does all of its set-up: only Python >= 3.11 and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-bits test-lowest test-newest lint attack bench docs clean

demo: $(VENV)/.demo
	$(BIN)/dcadl demo

# A process per core, each with a BLAS of one thread: threads of several processes would wait for each other.
# Tests of threads set their number themselves; `make test-bits` runs with as many as there are cores.
PARALLEL := -n logical --maxprocesses 8 --dist loadfile
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

test: $(VENV)/.test
	$(ONE_THREAD) $(BIN)/python -m pytest $(PARALLEL)

# What claims equal bits, under the kernels of more than one kind of processor. An unknown kernel would crash:
# those of AVX-512 are run only where the processor has it.
test-bits: $(VENV)/.test
	printf '%s\n' Haswell $$(grep -q avx512f /proc/cpuinfo 2>/dev/null && echo SkylakeX || echo Sandybridge) | \
	  xargs -P 2 -I CORE env OPENBLAS_CORETYPE=CORE $(BIN)/python -m pytest -q -m bits -p no:cacheprovider

# The suite with the lowest versions that pyproject.toml allows, and with the newest that there are, pre-releases
# included; each in an environment of its own.
test-lowest: pyproject.toml
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) .ci/lowest.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --constraint $(VENV)-lowest/constraints.txt --editable '.[test]'
	$(ONE_THREAD) $(VENV)-lowest/bin/python -m pytest $(PARALLEL)

test-newest: pyproject.toml
	$(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade --pre --editable '.[test]'
	$(ONE_THREAD) $(VENV)-newest/bin/python -m pytest $(PARALLEL)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A hundred thousand hostile cases, a few minutes; the table goes into docs/reliability.md.
attack: $(VENV)/.test
	$(BIN)/python tests/hostile/attack.py --page docs/reliability.md

# Every benchmark prints its own table; those that read DCADL_DATA say so when it is not set.
bench: $(VENV)/.test
	$(BIN)/python benchmarks/yaleb.py

# The documentation into site/, its tutorials run and their pictures drawn; a warning is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dcadl needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[plot]'
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-newest demo build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
