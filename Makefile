# Two commands do everything on a machine with python3, make and git: `make demo`, `make test`.
# Each fills .venv by itself, and again when pyproject.toml changes.

PYTHON ?= python3
JOBS ?= auto
BIN := .venv/bin
READY := .venv/.ready
CUDA := $(shell find src tests/kernels/device_library -name '*.cu' -o -name '*.cuh')
GPU_TESTS := tests/gpu/test_devices.py tests/gpu/test_gpu.py tests/gpu/test_gpu_random.py tests/gpu/test_gpu_train.py tests/gpu/test_gpu_learn.py tests/simulator/test_errors.py tests/check/test_check_launch.py \
             tests/ops/test_torch_op.py tests/ops/test_torch_messages.py tests/ops/test_torch_ladders.py tests/bench/test_bench_verb.py tests/frontends/test_python_textures.py \
             $(wildcard tests/device_library/test_*.py) $(wildcard tests/whole_kernels/test_kernels_*.py) $(wildcard tests/conformance)

.PHONY: demo climb quick test test-all test-gpu check format tables site dist try-wheel lowest clean

demo: $(READY)  ## matrix products from Python loops up: recorded H200 times, and what the simulated GPU counts
	@echo "Checks and counts 14 kernels on the simulated GPU: about a minute on 2 cores."
	$(BIN)/weft climb matmul

climb: $(READY)  ## every ladder: all rungs right, and what their headers promise
	$(BIN)/weft climb --all

quick: $(READY)  ## the tests that tell most in the shortest time, for the inner loop
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --suite quick

test: $(READY)  ## one test of everything
	@echo "How long this takes: docs/tests.md. pytest prints the duration at the end."
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --suite main

test-all: $(READY)  ## every test but the slow ones
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --suite all

test-gpu:  ## what a machine with a GPU should run, with its own python3 and nothing installed
	PYTHONPATH=src $(PYTHON) -m pytest -q -p no:cacheprovider --device gpu $(GPU_TESTS)

check: $(READY)  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CUDA)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(CUDA)

tables: $(READY)  ## fill the tables and the outputs of examples in the documents
	$(BIN)/python scripts/tables.py
	$(BIN)/python scripts/examples.py

site: $(READY)  ## the documents, the course and the API reference as a site, in site/
	$(BIN)/python -m pip install --quiet --editable '.[site]'
	$(BIN)/python -m mkdocs build --strict

dist:  ## the wheel and the source distribution, built twice with equal bits, and checked
	$(PYTHON) scripts/dist.py

try-wheel: dist  ## install the wheel as a user does, in a fresh environment, and run a first kernel
	$(PYTHON) scripts/try_wheel.py dist

lowest:  ## the quick tests with the lowest versions of all dependencies
	$(PYTHON) scripts/lowest.py

clean:
	rm -rf .venv build dist site

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=24'
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@
