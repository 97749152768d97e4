# Needs Python 3.11 or later and make, nothing else: Node comes as a wheel, the cloud as a local emulator.
PYTHON ?= python3
STAGE ?= dev
STATES ?= 100000
HISTORIES ?= 20000
# Asked for where it is used, once the environment is there.
VERSION = $(shell $(BIN)/python -m local.revision)

BIN := .venv/bin
# Node, npm and the tools of the environment, before those of the machine.
TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH"
PIP := -m pip install -qq --disable-pip-version-check --no-input --require-hashes
CDK := $(TOOLS) CDK_DISABLE_CLI_TELEMETRY=true node_modules/.bin/cdk
# Asked without Python: what was never set up need not be, to say that it is not up.
UP := test -e .local/state.json
READY := .venv/.ready .build/emulator/.ready node_modules/.ready .build/wheelhouse/.ready

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup local up down status test model soak crashtest crashbench exportbench startbench jobbench audit lint format synth deploy diagram lock clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{ printf "  make %-11s %s\n", $$1, $$2 }'

setup: $(READY) ## create the environments; every other target does it by itself, and it costs nothing once done
	@:

local: setup ## start the local cloud, deploy into it, show jobs live until Ctrl-C (HOLDFAST_PORT=8600)
	@$(BIN)/python -m local run

up: setup ## the same in the background; if it is up, deploy the present code into it and keep its jobs
	@$(BIN)/python -m local up

down: ## end what `make up` started, and nothing else
	@if $(UP); then $(BIN)/python -m local down; else echo "the local cloud is not up"; fi

status: ## is the local cloud up, and where
	@if $(UP); then $(BIN)/python -m local status; else echo "the local cloud is not up; make up starts it"; exit 1; fi

test: lint .build/schemathesis/.ready ## check everything: style, types, then every test, a process per core (ARGS="-k lease" narrows the tests)
	@$(TOOLS) $(BIN)/python -m pytest -n auto $(ARGS)

model: setup ## explore the model of the rules: at most STATES (100000) states in each configuration
	@$(BIN)/python -m tests.model $(STATES) $(ARGS)

soak: setup ## HISTORIES (20000) random histories of crashes, duplicates and losses; ARGS="--seed 7" replays one
	@$(BIN)/python -m tests.histories $(HISTORIES) $(ARGS)

crashtest: setup .build/faults/.ready ## kill -9 and faulty AWS answers on the local cloud, hundreds of jobs, effects counted
	@$(TOOLS) $(BIN)/python -m tests.crash $(ARGS)

crashbench: setup .build/rivals/.ready ## the same kill -9 on Celery, RQ, Dramatiq, Huey, arq, BullMQ and Holdfast; needs redis-server
	@$(TOOLS) $(BIN)/python -m benchmarks.crash $(ARGS)

exportbench: setup ## export 90,000 pages on the local cloud, alone and under kill -9: time, memory, kills (ARGS="--pages 40000")
	@$(TOOLS) $(BIN)/python -m benchmarks.export $(ARGS)

startbench: setup ## CPU until each function is ready, beside the usual stack, in one run
	@$(TOOLS) $(BIN)/python -m benchmarks.start $(ARGS)

jobbench: setup ## CPU that a worker spends on a job, beside the usual stack, in one run
	@$(TOOLS) $(BIN)/python -m benchmarks.job $(ARGS)

audit: ## look for known vulnerabilities in everything that is locked; says so where no advisories can be reached
	@$(MAKE) -s --no-print-directory .build/audit/.ready || { echo "audit: nothing was checked: no package index can be reached from here"; exit 2; }
	@.build/audit/bin/python -m local.audit

lint: setup ## style, formatting and types
	@$(BIN)/ruff check --quiet . && echo "ruff: style is clean"
	@$(BIN)/ruff format --check --quiet . || { echo "ruff: the files above are not formatted; run make format" >&2; $(BIN)/ruff format --check . >&2; exit 1; }
	@$(BIN)/mypy

format: setup ## format the code
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

synth: setup ## write the templates of STAGE (dev) to cdk.out; no credentials, no network
	@$(CDK) synth --quiet --ci --no-notices -c stage=$(STAGE) -c code_version=$(VERSION) $(ARGS) >/dev/null 2>.build/synth.log; \
	  status=$$?; grep -v '^Bundling asset' .build/synth.log >&2; exit $$status
	@echo "cdk.out: the templates of stage $(STAGE), code version $(VERSION)"

deploy: setup ## deploy STAGE (dev) into the AWS account of your credentials; cdk asks before it widens permissions
	@test "$(STAGE)" != local || { echo "stage local lives in the local cloud: make local, or make up" >&2; exit 2; }
	@echo "cdk deploy: the stacks Holdfast-$(STAGE)-* at code version $(VERSION), into the AWS account of"
	@echo "profile $${AWS_PROFILE:-(the default credentials)}, region $${AWS_REGION:-$${AWS_DEFAULT_REGION:-(of the profile)}}; once per account: cdk bootstrap"
	@$(CDK) deploy --all --no-notices -c stage=$(STAGE) -c code_version=$(VERSION) $(ARGS)

diagram: setup ## draw the README's state diagram anew from the transition table
	@$(BIN)/python -m shared.domain.diagram README.md

lock: ## resolve the *.in files anew into the pinned, hashed *.txt files
	@test -x .build/lock/bin/uv || { $(PYTHON) -m venv .build/lock && .build/lock/bin/python -m pip install -q --disable-pip-version-check uv==0.13.9; }
	@for name in requirements requirements-dev local/emulator local/audit tests/crash/faults tests/contract/schemathesis benchmarks/crash/rivals benchmarks/crash/arq; do \
	  .build/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-annotate --custom-compile-command "make lock" $$name.in -o $$name.txt && echo "$$name.txt" || exit 1; \
	done

clean: ## end the local cloud, remove everything that was built
	@if test -x $(BIN)/python && $(UP); then $(BIN)/python -m local down; fi
	@rm -rf .venv .build .local node_modules benchmarks/crash/bullmq/node_modules cdk.out outputs.json .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.ready: requirements-dev.txt
	@test -d node_modules || echo "set-up: two to five minutes and 1.1 GB, once"
	@echo "set-up: Python environment in .venv"
	@$(call environment,.venv,requirements-dev.txt)

.build/emulator/.ready: local/emulator.txt
	@echo "set-up: the emulator's environment in .build/emulator"
	@$(call environment,.build/emulator,local/emulator.txt)

# microburst, the proxy between functions and emulator, has dependencies of its own that nothing else needs.
.build/faults/.ready: tests/crash/faults.txt
	@echo "set-up: the fault proxy's environment in .build/faults"
	@$(call environment,.build/faults,tests/crash/faults.txt)

# pip-audit brings thirty packages that nothing else needs.
.build/audit/.ready: local/audit.txt
	@echo "set-up: the environment of make audit in .build/audit"
	@$(call environment,.build/audit,local/audit.txt)

# schemathesis, which calls the API by its contract, would put a plugin of its own into every run of pytest.
.build/schemathesis/.ready: tests/contract/schemathesis.txt
	@echo "set-up: schemathesis' environment in .build/schemathesis"
	@$(call environment,.build/schemathesis,tests/contract/schemathesis.txt)

# arq asks for an older redis client than Celery takes. The last line of an environment marks it ready, so npm comes first.
.build/rivals/.ready: benchmarks/crash/rivals.txt benchmarks/crash/arq.txt benchmarks/crash/bullmq/package-lock.json .venv/.ready
	@echo "set-up: the other job systems in .build/rivals, .build/arq and benchmarks/crash/bullmq"
	@$(TOOLS) npm ci --prefix benchmarks/crash/bullmq --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@rm -rf .build/arq && $(PYTHON) -m venv .build/arq && .build/arq/bin/python $(PIP) -r benchmarks/crash/arq.txt
	@$(call environment,.build/rivals,benchmarks/crash/rivals.txt)

node_modules/.ready: package-lock.json .venv/.ready
	@echo "set-up: the CDK command line in node_modules"
	@$(TOOLS) npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null || \
	  { echo "npm failed; behind a proxy with its own certificate set NODE_EXTRA_CA_CERTS=/path/to/ca.pem" >&2; exit 1; }
	@touch $@

.build/wheelhouse/.ready: $(wildcard lambdas/*/requirements.txt) local/wheelhouse.py .venv/.ready
	@$(BIN)/python -m local.wheelhouse
	@touch $@

define environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
  { echo "Python 3.11 or later is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1); say make PYTHON=python3.12 …" >&2; exit 2; }; \
rm -rf $(1) && $(PYTHON) -m venv $(1) >/dev/null || \
  { echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }; \
$(1)/bin/python $(PIP) -r $(2) && touch $@
endef
