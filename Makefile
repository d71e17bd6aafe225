# Every developer command. `make` alone lists them.
PYTHON ?= .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup demo record test lint types format wheel peers league perf fuzz kills soak notebooks

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: ## make .venv and install everything that tests and make need
	python3 -m venv .venv
	$(PYTHON) -m pip install -q -e '.[dev]'

demo: ## the default comparison, offline, on recorded replies of real models
	$(PYTHON) -m bench

URL ?= http://127.0.0.1:8080/v1
MODEL ?= qwen2.5-coder-0.5b
record: ## ask a model again for what its recording lacks (URL=…, MODEL=…)
	$(PYTHON) -m bench compare --base-url $(URL) --model $(MODEL) --yes --record datasets/recordings/$(MODEL).jsonl.gz

test: ## all tests with coverage, as CI runs them
	$(PYTHON) -m pytest --cov

lint: ## report what ruff finds
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types: ## check types strictly
	$(PYTHON) -m mypy

format: ## format and fix what ruff can
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

notebooks: ## execute the notebooks in place, and keep their outputs (ONLY=notebooks/…)
	$(PYTHON) tests/test_notebooks.py $(ONLY)

wheel: ## build the wheel into dist/
	$(PYTHON) -m hatchling build -t wheel

peers: ## install other projects' parsers, each in its own environment under .peers/
	$(PYTHON) -m bench.peers

league: ## compare our readers with the installed peers; writes results/league/
	$(PYTHON) -m bench league

perf: ## measure overhead, throughput, replay and readers; writes results/perf.md (PART=…)
	$(PYTHON) -m bench.perf $(PART)

fuzz: ## read a million broken replies within 25 minutes; prints what breaks a claim
	$(PYTHON) tests/fuzz/fuzz_parsers.py

kills: ## kill a run of 400 episodes 50 times, and hold it against an unbroken one
	$(PYTHON) tests/bench/test_kills.py

soak: ## ask an endpoint that fails in every way, 10,000 episodes; all must be accounted for
	$(PYTHON) -m bench.perf.soak
