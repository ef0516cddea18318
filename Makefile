# `make demo` and `make test` need python3.11+ and make, nothing else: they build .venv with pinned versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo tour test test-fast test-slow test-paths fuzz check format bench bench-encoders bench-accuracy bench-chemists bench-defaults bench-training bench-large models house lock audit release docs clean
.DEFAULT_GOAL := help

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

# torch goes first and pinned: a plain resolve would fetch a newer build with gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[chem,report,tune,tables,cluster,bench,dev]'
	touch $@

demo: $(READY)  ## predict with a model that comes with the package (seconds), and train one that counts (minutes; resumes); writes out/
	mkdir -p out
	$(BIN)/pointset predict solubility examples/molecules.csv -o out/solubility.csv --overwrite
	head -n 4 out/solubility.csv
	$(BIN)/pointset train counting-small --run-dir out/counting-small --resume

tour: $(READY)  ## real graphs become points and come back; writes out/tour/
	$(BIN)/python examples/graphs_and_points.py --output out/tour

test: check test-fast  ## lint, types, import contracts and the fast tests

test-fast: $(READY)  ## the fast tests only
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

test-slow: $(READY)  ## tests that take minutes (large graphs, whole datasets)
	$(BIN)/python -m pytest -q -m slow

fuzz: $(READY)  ## damaged files for every reader, for MINUTES=5; findings are kept in fuzz-findings/
	$(BIN)/python -m tests.fuzzing --minutes $(or $(MINUTES),5)

test-paths: $(READY)  ## the fast tests under other code paths of the libraries, as on other processors (half an hour)
	ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q
	ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=2 $(BIN)/python -m pytest -q
	MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q
	MKL_CBWR=AVX2 OMP_NUM_THREADS=2 $(BIN)/python -m pytest -q

check: $(READY)  ## ruff, mypy, import contracts, dependency check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/deptry src

format: $(READY)  ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## the figures of docs/benchmarks.md (minutes; wants ../shared/data)
	$(BIN)/python benchmarks/many_graphs.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/datasets_ready.py
	$(BIN)/python benchmarks/molecules.py
	$(BIN)/python benchmarks/startup.py

bench-encoders: $(READY)  ## speed, growth and memory of the encoders (fifteen minutes, 8 GB; wants ../shared/data)
	$(BIN)/python benchmarks/encoder_speed.py
	$(BIN)/python benchmarks/encoder_growth.py

bench-accuracy: $(READY)  ## error per epoch and per minute of PST and GPS, three datasets and seeds (hours on one core; can be interrupted)
	$(BIN)/python benchmarks/accuracy_per_minute.py
	$(BIN)/python benchmarks/accuracy_per_minute.py --summary --json results/accuracy_per_minute.json

bench-chemists: $(READY)  ## beside chemprop (CHEMPROP=its program), forest and boosting on nine sets (hours on one core; can be interrupted)
	$(BIN)/python benchmarks/chemists.py --chemprop $(CHEMPROP)
	$(BIN)/python benchmarks/chemists.py --summary --json results/chemists.json

bench-defaults: $(READY)  ## the trials behind the defaults of 'pointset train molecules' (hours on one core; can be interrupted)
	$(BIN)/python benchmarks/chemists_trials.py
	$(BIN)/python benchmarks/chemists_trials.py --summary --json results/chemists_trials.json

bench-training: $(READY)  ## what the training loop costs around the bare step, mass prediction (minutes)
	$(BIN)/python benchmarks/training_loop.py
	$(BIN)/python benchmarks/mass_prediction.py
	$(BIN)/python benchmarks/cluster_rows.py

bench-large: $(READY)  ## one graph of 1,000,000 nodes, and the low end of the Laplacian (half an hour; wants POINTSET_DATA)
	$(BIN)/python benchmarks/large_graph.py
	$(BIN)/python benchmarks/low_end.py

models: $(READY)  ## train the models that are shipped and pack them with their cards (an hour on one core; resumes; wants POINTSET_DATA)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/shipped_models.py

house: $(READY)  ## size of the package, and the files that three everyday walks pass through (a minute)
	$(BIN)/python benchmarks/house.py

lock: $(READY)  ## requirements*.lock: what pip installs of the pinned versions, with hashes
	$(BIN)/python tools/dependencies.py lock

audit: $(READY)  ## known vulnerabilities of the locked versions, where the data is to be had
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	$(BIN)/python tools/dependencies.py audit

release: $(READY)  ## wheel, source, bill of materials (CycloneDX) and checksums, in dist/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	$(BIN)/python tools/dependencies.py release

docs: $(READY)  ## the documentation as a site, in site/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean:  ## remove what was made, also .venv
	rm -rf $(VENV) out site .mypy_cache .ruff_cache .pytest_cache .hypothesis
