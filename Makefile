# Everything a person or CI runs. `make` alone lists the targets.
# A fresh machine needs Python 3.11 or later and make; all else is installed into .venv.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
PREFIX ?= $(HOME)/.local

# Benchmarks measure what an installation gives: the compiled allocator, unless DRA_COMPILE=0 or there is no C compiler.
# PYTHONSAFEPATH keeps the sources in this folder from being imported instead.
COMPILED     := .cache/compiled
AS_INSTALLED := PYTHONSAFEPATH=1 PYTHONPATH=$(if $(filter 0,$(DRA_COMPILE)),,$(CURDIR)/$(COMPILED):)$(CURDIR)
BUILT        := $(if $(filter 0,$(DRA_COMPILE)),,$(COMPILED)/.built)

PYTHON_CHECK := -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is " + sys.version)'

.DEFAULT_GOAL := help
.PHONY: help demo docs install pictures test check nightly format lock clean bench-allocator bench-cel bench-cli bench-cycle bench-defrag bench-e2e bench-extender bench-failover bench-guard bench-offline bench-partitions bench-plan bench-simulate bench-traces cliffs peer-check plugins-check chaos fuzz messages mutants story soak versions cluster demo-live compiled wheel-check krew image-check groups-check

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.run ## place the pods of the bundled example fleet
	$(BIN)/dra allocate manifests/examples/fleet || test $$? -eq 1 # one pod of the fleet requests more than any node has

install: ## install dra, kubectl-dra and its completion into PREFIX/bin (~/.local/bin), compiled if there is a C compiler (DRA_COMPILE=0: not compiled); EXTRA=dask: with dask
	@$(PYTHON) $(PYTHON_CHECK)
	@$(PYTHON) manifests/install/install.py --prefix "$(PREFIX)" --requirements $(or $(EXTRA),run)

test: check ## run all checks and tests (the same as check)

check: $(VENV)/.dev $(VENV)/.docs ## check style, types and imports, and run all tests side by side, as CI does
	$(BIN)/python -m tests.gate.run

nightly: $(VENV)/.dev $(VENV)/.docs ## the same with all cases of long sweeps, and with the seeds of the day
	$(BIN)/python -m tests.gate.run --nightly

docs: $(VENV)/.docs ## make the pages of docs/ a site in .cache/site; a dead link, or a page outside the navigation, fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict # --quiet would hide warnings, which then would not fail
	@echo "open .cache/site/index.html"

pictures: $(VENV)/.dev ## take pictures of all pages into .cache/pictures, and those of the README (needs Chromium)
	$(BIN)/python -m tests.pictures.run

format: $(VENV)/.dev ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-allocator: $(VENV)/.bench $(BUILT) ## compare the allocator with the reference (needs Go): table, JSON, plot
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.allocator.run $(ARGS)

compiled: export DRA_COMPILE = 1
compiled: $(COMPILED)/.built ## compile the allocator with mypyc (needs a C compiler) into .cache/compiled

bench-cli: $(VENV)/.run $(BUILT) ## measure status, claims, lint, audit, fit and whatif on 5,000 nodes and 10,000 claims: table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.cli.run $(ARGS)

bench-cel: $(VENV)/.bench ## compare selectors over 100,000 devices with cel-go (needs Go): table, JSON
	$(BIN)/python -m benchmarks.cel.run $(ARGS)

bench-cycle: $(VENV)/.bench $(BUILT) ## measure decisions alone at up to 15,000 nodes, compared with kube-scheduler's plugins (needs Go): table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.cycle.run $(ARGS)

bench-defrag: $(VENV)/.run $(BUILT) ## measure plans of dra defrag: one move on 5,000 nodes, three on 500: table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.defrag.run $(ARGS)

bench-e2e: $(VENV)/.bench $(BUILT) ## bind pods on a real control plane, compared with kube-scheduler (needs Go once): table, JSON, plot
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.endtoend.run $(ARGS)

bench-extender: $(VENV)/.bench $(BUILT) ## call the extender about 5,000 nodes on a real control plane (needs Go once): table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.extender.run $(ARGS)

bench-failover: $(VENV)/.bench $(BUILT) ## stop the leader while 1,500 pods wait on a real control plane (needs Go once): table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.failover.run $(ARGS)

bench-guard: $(VENV)/.bench $(BUILT) ## allocate claims on a real control plane with and without the guard (needs Go once): table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.guard.run $(ARGS)

bench-offline: $(VENV)/.run $(BUILT) ## measure `dra allocate` on 5,000 nodes with none, a tenth and all of 10,000 pods refused: table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.offline.run $(ARGS)

bench-partitions: $(VENV)/.run $(BUILT) ## compare policies on 100 GPUs that MIG partitions, for four mixes and three loads with departures: table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.partitions.run $(ARGS)

bench-plan: $(VENV)/.dev $(BUILT) ## compare 200 plans of dra plan with the best ones, and measure --remove on 500 and 5,000 nodes: table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.plan.run $(ARGS)

bench-simulate: $(VENV)/.run $(BUILT) ## measure `dra simulate` with a million arrivals on up to 100,000 nodes: table, JSON
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.simulate.run $(ARGS)

bench-traces: $(VENV)/.run $(BUILT) ## replay the openb workloads in TRACES=FOLDER with all policies, and compare with the recorded curves
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.traces.run --traces $(TRACES) $(ARGS)

cliffs: $(VENV)/.bench $(BUILT) ## measure attempts with the whole budget on claims that are hard to satisfy, for every policy: table, JSON; exit code 1 over a limit
	$(AS_INSTALLED) $(BIN)/python -m benchmarks.cliffs.run $(ARGS)

peer-check: $(VENV)/.dev ## compare with the reference (needs Go) on N random cases of a SEED
	PEER_N=$(or $(N),20000) PEER_SEED=$(or $(SEED),1) $(BIN)/pytest -q tests/differential/test_allocation.py

plugins-check: $(VENV)/.dev ## compare with kube-scheduler's plugins (needs Go) on N random clusters of a SEED; KUBERNETES=1.37: of another release
	PLUGINS_RELEASE=$(KUBERNETES) PLUGINS_N=$(or $(N),20000) PLUGINS_SEED=$(or $(SEED),1) $(BIN)/pytest -q tests/differential/test_plugins.py

groups-check: $(VENV)/.dev ## place N random groups of a SEED that fit in few ways or barely not, and count those without an answer
	GANGS=$(or $(N),1000) GANGS_SEED=$(or $(SEED),1) GANGS_STEPS=100000 $(BIN)/pytest -q -s tests/properties/pod_groups/test_hard_gangs.py

fuzz: $(VENV)/.dev ## fuzz expressions, manifests, and calls of the extender and the guard for MINUTES=N
	$(BIN)/pip install --quiet --only-binary :all: --require-hashes -r requirements/fuzz.txt || echo "no atheris for this machine: inputs are drawn without guidance"
	$(BIN)/python -m tests.fuzz.run --minutes $(or $(MINUTES),1) --seed $(or $(SEED),1) $(ARGS)

story: $(VENV)/.dev ## print the calls of one pod from its object to its binding, as a tree with files and lines; ARGS="--depth N"
	@$(BIN)/python -m tests.story.run $(ARGS)

messages: $(VENV)/.dev ## print every message of the program once, from its source, to be read as a whole; ARGS="scheduler/cli"
	@$(BIN)/python -m tests.messages.run $(ARGS)

mutants: $(VENV)/.dev ## mutate allocator and scheduler in N random places of a SEED, and print mutants that no test detects
	$(BIN)/python -m tests.mutants.run --count $(or $(N),200) --seed $(or $(SEED),1) $(ARGS)

soak: $(VENV)/.dev ## run a hostile tenant beside others on a real control plane for MINUTES=N (needs Go once): figures, verdict; MIX=1: priorities, groups, limits instead
	$(BIN)/python -m tests.soak.$(if $(MIX),mix.)run --minutes $(or $(MINUTES),2) --seed $(or $(SEED),1) $(ARGS)

chaos: $(VENV)/.dev ## let things go wrong in ROUNDS=N rounds from SEED=S on, on a real control plane (needs Go once): verdict
	$(BIN)/python -m tests.chaos.run --rounds $(or $(ROUNDS),20) --seed $(or $(SEED),1) $(ARGS)

OF_EVERY_RELEASE := $(addprefix tests/integration/live/test_,features.py kubelet.py)
versions: $(VENV)/.dev ## run tests against other releases of Kubernetes and with other gates (needs Go once); PROFILES="1.34 GA": fewer, NEXT="1.37 1.38": those too, TESTS=FILES: others
	failed=; \
	for profile in $(or $(PROFILES),1.34 1.34-gates 1.35 1.35-gates GA every-gate); do \
	  echo "== Kubernetes 1.36, profile $$profile"; \
	  CONTROL_PLANE_PROFILE=$$profile $(BIN)/python -m pytest -q -n auto --dist loadfile $(or $(TESTS),$(OF_EVERY_RELEASE)) || failed="$$failed $$profile"; \
	done; \
	for release in $(NEXT); do \
	  echo "== Kubernetes $$release"; \
	  CONTROL_PLANE_RELEASE=$$release $(BIN)/python -m pytest -q -n auto --dist loadfile $(or $(TESTS),$(OF_EVERY_RELEASE)) || failed="$$failed $$release"; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

cluster: $(VENV)/.run ## run a Kubernetes control plane with a small fleet until Ctrl-C (needs Go once)
	$(BIN)/python -m tests.controlplane.cluster $(ARGS)

demo-live: $(VENV)/.run ## schedule fifty pods on a control plane, print the result and stop (needs Go once)
	$(BIN)/python -m tests.controlplane.demo $(ARGS)

WHEELS := $(CURDIR)/.cache/wheels
wheel-check: $(BIN)/python ## build a pure and a compiled wheel, install each into an empty environment, compare what they print
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt
	rm -rf $(WHEELS)
	set -e; for compile in 0 1; do \
	  rm -rf build; folder=$(WHEELS)/$$compile; \
	  DRA_COMPILE=$$compile $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $$folder .; \
	  $(PYTHON) -m venv $$folder/venv; \
	  $$folder/venv/bin/pip install --quiet --require-hashes -r requirements/run.txt; \
	  $$folder/venv/bin/pip install --quiet --no-deps --no-index $$folder/*.whl; \
	  unset PYTHONPATH; cd $$folder; \
	  venv/bin/dra allocate $(CURDIR)/manifests/examples/fleet > placed || test $$? -eq 1; \
	  grep -q '^inference/chat-0 .* gpu.example.com/gpu-a/gpu-1$$' placed; \
	  cd $(CURDIR); \
	done
	env -u PYTHONPATH $(WHEELS)/0/venv/bin/dra --version | grep -F '(not compiled)'
	env -u PYTHONPATH $(WHEELS)/1/venv/bin/dra --version | grep -F '(compiled)'
	env -u PYTHONPATH $(WHEELS)/1/venv/bin/kubectl-dra status --help | grep -F 'Usage: kubectl dra status'
	cmp $(WHEELS)/0/placed $(WHEELS)/1/placed

krew: $(BIN)/python ## build the archive and the manifest of the kubectl plugin for krew into .cache/krew
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt
	rm -rf build .cache/krew
	DRA_COMPILE=0 $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir .cache/krew/wheel .
	$(BIN)/python manifests/krew/archive.py .cache/krew/wheel/*.whl .cache/krew

image-check: $(VENV)/.dev ## build the image and run it, with docker, or else as root in a plain directory (needs Go once)
	$(BIN)/python -m tests.image.run

lock: $(BIN)/python ## update the locked requirements from pyproject.toml
	$(BIN)/pip install --quiet uv
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header pyproject.toml -o requirements/run.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra dev pyproject.toml -o requirements/dev.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra bench pyproject.toml -o requirements/bench.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra dask pyproject.toml -o requirements/dask.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra fuzz pyproject.toml -o requirements/fuzz.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --constraints requirements/dev.txt --extra docs pyproject.toml -o requirements/docs.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header requirements/build.in -o requirements/build.txt

clean: ## remove everything that the other targets created
	rm -rf $(VENV) .cache .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

$(BIN)/python:
	$(PYTHON) $(PYTHON_CHECK)
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

$(VENV)/.docs: requirements/docs.txt $(VENV)/.run
	$(BIN)/pip install --quiet --require-hashes -r requirements/docs.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.run
	$(BIN)/pip install --quiet --require-hashes -r requirements/bench.txt
	@touch $@

$(COMPILED)/.built: setup.py pyproject.toml $(shell find cel allocator scheduler -name '*.py') | $(VENV)/.run
	rm -rf $(COMPILED)
	$(BIN)/python setup.py --quiet build --build-base $(COMPILED)/.build --build-lib $(COMPILED)
	$(BIN)/python -m compileall -q $(COMPILED)/cel $(COMPILED)/allocator $(COMPILED)/scheduler # as pip does
	@touch $@
