# Everything a person or CI runs. `make` alone lists the targets.
# A fresh machine needs Python 3.11 or later and make; all else is installed into .venv.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
PREFIX ?= $(HOME)/.local/dra

# What is measured is what an install gives: the allocator compiled, unless DRA_COMPILE=0 or there is no C compiler.
# The safe path keeps this folder's sources from being found first.
COMPILED     := .cache/compiled
AS_INSTALLED := PYTHONSAFEPATH=1 PYTHONPATH=$(if $(filter 0,$(DRA_COMPILE)),,$(CURDIR)/$(COMPILED):)$(CURDIR)
BUILT        := $(if $(filter 0,$(DRA_COMPILE)),,$(COMPILED)/.built)

.DEFAULT_GOAL := help
.PHONY: help demo install test check format lock clean bench-allocator bench-cel bench-cycle bench-e2e bench-extender bench-failover bench-offline bench-traces peer-check plugins-check fuzz-cel mutants soak cluster demo-live compiled

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.run ## place the pods of the bundled example fleet
	$(BIN)/dra allocate manifests/examples/fleet || test $$? -eq 1 # one pod of the fleet asks for more than there is

install: $(BIN)/python ## install into PREFIX (~/.local/dra), compiled if there is a C compiler (DRA_COMPILE=0: not compiled)
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt
	rm -rf build .cache/dist
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir .cache/dist .
	$(PYTHON) -m venv $(PREFIX)
	$(PREFIX)/bin/pip install --quiet --require-hashes -r requirements/run.txt
	$(PREFIX)/bin/pip install --quiet --no-deps --no-index --force-reinstall .cache/dist/*.whl
	$(PREFIX)/bin/dra --version

test: check ## all that has to pass: style, types, direction of imports, tests

check: $(VENV)/.dev ## the one gate, run by people and by CI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder -p tests.second_run

format: $(VENV)/.dev ## rewrite the sources in the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-allocator: $(VENV)/.bench $(BUILT) ## the allocator beside the reference (needs Go): table, JSON, plot
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.allocator.run $(ARGS)

compiled: export DRA_COMPILE = 1
compiled: $(COMPILED)/.built ## the allocator compiled by mypyc (needs a C compiler), in .cache/compiled

bench-cel: $(VENV)/.bench ## selectors over 100,000 devices beside cel-go (needs Go): table, JSON
	$(BIN)/python -m benchmarks.cel.run $(ARGS)

bench-cycle: $(VENV)/.bench $(BUILT) ## decisions alone, all filters, up to 15,000 nodes, beside kube-scheduler's plugins (needs Go): table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.cycle.run $(ARGS)

bench-e2e: $(VENV)/.bench $(BUILT) ## pods bound on a real control plane, also with our extender, beside kube-scheduler (needs Go once): table, JSON, plot
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.endtoend.run $(ARGS)

bench-extender: $(VENV)/.bench $(BUILT) ## filter calls about 5,000 nodes to the extender on a real control plane (needs Go once): table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.extender.run $(ARGS)

bench-failover: $(VENV)/.bench $(BUILT) ## the leader of two replicas ends while 1,500 pods wait on a real control plane (needs Go once): table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.failover.run $(ARGS)

bench-offline: $(VENV)/.run $(BUILT) ## `dra allocate` on 5,000 nodes, with none, a tenth and all of 10,000 pods refused: table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.offline.run $(ARGS)

bench-traces: $(VENV)/.run $(BUILT) ## openb workloads of TRACES=FOLDER by all policies, beside the recorded curves
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.traces.run --traces $(TRACES) $(ARGS)

peer-check: $(VENV)/.dev ## compare with the reference (needs Go) on N random cases from a SEED
	PEER_N=$(or $(N),20000) PEER_SEED=$(or $(SEED),1) $(BIN)/pytest -q tests/differential/test_allocation.py

plugins-check: $(VENV)/.dev ## compare with kube-scheduler's plugins (needs Go) on N random clusters from a SEED
	PLUGINS_N=$(or $(N),20000) PLUGINS_SEED=$(or $(SEED),1) $(BIN)/pytest -q tests/differential/test_plugins.py

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

# The build backend is locked like everything else: nothing is fetched without a hash. An editable install is never
# compiled: what runs is what was edited.
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

$(COMPILED)/.built: setup.py pyproject.toml $(shell find cel allocator scheduler -name '*.py') | $(VENV)/.run
	rm -rf $(COMPILED)
	$(BIN)/python setup.py --quiet build --build-base $(COMPILED)/.build --build-lib $(COMPILED)
	$(BIN)/python -m compileall -q $(COMPILED)/cel $(COMPILED)/allocator $(COMPILED)/scheduler # as pip does
	@touch $@
