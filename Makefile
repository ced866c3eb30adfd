# Everything a person or CI runs. `make` alone lists the targets.
# A fresh machine needs Python 3.11 or later and make; all else is installed into .venv.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
COMPILED := .cache/compiled

.DEFAULT_GOAL := help
.PHONY: help demo test check format lock clean bench-allocator bench-cel bench-e2e bench-extender bench-offline peer-check fuzz-cel mutants soak cluster demo-live compiled

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.run ## place the pods of the bundled example fleet
	$(BIN)/dra allocate manifests/examples/fleet || test $$? -eq 1 # one pod of the fleet asks for more than there is

test: check ## all that has to pass: style, types, direction of imports, tests

check: $(VENV)/.dev ## the one gate, run by people and by CI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p tests.second_run

format: $(VENV)/.dev ## rewrite the sources in the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Compiled where the machine has a C compiler; the table says what ran. `-P` keeps this folder's sources from being found first.
bench-allocator: $(VENV)/.bench $(if $(shell command -v cc),$(COMPILED)/.built) ## the allocator beside the reference (needs Go): table, JSON, plot
	PYTHONPATH=$(COMPILED):. $(BIN)/python -P -m benchmarks.allocator.run $(ARGS)

compiled: $(COMPILED)/.built ## the allocator compiled by mypyc (needs a C compiler), in .cache/compiled

bench-cel: $(VENV)/.bench ## selectors over 100,000 devices beside cel-go (needs Go): table, JSON
	$(BIN)/python -m benchmarks.cel.run $(ARGS)

bench-e2e: $(VENV)/.bench ## pods bound on a real control plane, also with our extender, beside kube-scheduler (needs Go once): table, JSON, plot
	$(BIN)/python -m benchmarks.endtoend.run $(ARGS)

bench-extender: $(VENV)/.bench ## filter calls about 5,000 nodes to the extender on a real control plane (needs Go once): table, JSON
	$(BIN)/python -m benchmarks.extender.run $(ARGS)

bench-offline: $(VENV)/.run ## `dra allocate` on 5,000 nodes, with none, a tenth and all of 10,000 pods refused: table, JSON
	$(BIN)/python -m benchmarks.offline.run $(ARGS)

peer-check: $(VENV)/.dev ## compare with the reference (needs Go) on N random cases from a SEED
	PEER_N=$(or $(N),20000) PEER_SEED=$(or $(SEED),1) $(BIN)/pytest -q tests/differential/test_allocation.py

fuzz-cel: $(VENV)/.dev ## break expressions for a minute (ARGS="--seconds 0": without end)
	$(BIN)/python -m tests.fuzz.cel_expressions $(ARGS)

mutants: $(VENV)/.dev ## break allocator and scheduler in N random places from a SEED, and print what no test notices
	$(BIN)/python -m tests.mutants.run --count $(or $(N),200) --seed $(or $(SEED),1) $(ARGS)

soak: $(VENV)/.dev ## a hostile tenant beside others on a real control plane for MINUTES=N from a SEED (needs Go once): figures, verdict
	$(BIN)/python -m tests.soak.run --minutes $(or $(MINUTES),2) --seed $(or $(SEED),1) $(ARGS)

cluster: $(VENV)/.run ## a Kubernetes control plane with a small fleet (needs Go once), until Ctrl-C
	$(BIN)/python -m tests.controlplane.cluster $(ARGS)

demo-live: $(VENV)/.run ## control plane, fleet, scheduler, fifty pods, who got what; all stopped again (needs Go once)
	$(BIN)/python -m tests.controlplane.demo $(ARGS)

lock: $(BIN)/python ## write the locked requirements anew from pyproject.toml
	$(BIN)/pip install --quiet uv
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header pyproject.toml -o requirements/run.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra dev pyproject.toml -o requirements/dev.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra bench pyproject.toml -o requirements/bench.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header requirements/build.in -o requirements/build.txt

clean: ## remove what the other targets made
	rm -rf $(VENV) .cache .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

# The build backend is locked like everything else: nothing is fetched without a hash.
$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt -r requirements/run.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.run
	$(BIN)/pip install --quiet --require-hashes -r requirements/bench.txt
	@touch $@

$(COMPILED)/.built: setup.py pyproject.toml $(shell find cel allocator scheduler -name '*.py') | $(VENV)/.dev
	rm -rf $(COMPILED)
	DRA_COMPILE=1 $(BIN)/python setup.py --quiet build --build-base $(COMPILED)/.build --build-lib $(COMPILED)
	@touch $@
