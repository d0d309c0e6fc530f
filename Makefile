# Pushgrid. `make run` runs a demo; `make test` is what CI runs.
# Interpreter for .venv; if empty, setup.sh chooses the newest suitable Python.
PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
WORKER := .venv-worker
OLDER := .clients
JAVASCRIPT := tests/clients/javascript
BROWSER := tests/browser
BULLMQ := bench/peers/bullmq
CORE_TOOLS := tests/core_tools
CELERY := .venv-celery
AZ := .az
AUDIT := .venv-audit
# Files that pip installs from, and folders that npm installs in.
PINNED := $(wildcard requirements*.txt tests/clients/*.txt) tests/az/requirements.txt bench/peers/celery/requirements.txt
LOCKED := . $(JAVASCRIPT) $(BROWSER) $(BULLMQ) $(CORE_TOOLS)
CODE := pushgrid shared devhost server cli testbed bench tests tools $(wildcard *_function)
QUICK := tests/unit tests/functional
# Each law with a few examples, and no test that takes long; `make test` tries all, as usual.
BRIEF := --hypothesis-profile=quick -m "not slow"
# Unit and functional tests never wait; the others mostly wait for schedules, timeouts and outages. Each file stays in one process;
# tests/conftest.py starts the longest files first.
BESIDE := -n 6 --dist loadfile --no-loadscope-reorder

# Images set it to save room. Here each of hundreds of processes would compile what it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
# Setup that is interrupted in its second half keeps what its first half has installed.
.PRECIOUS: $(VENV)/.stamp
FORCE:
.PHONY: FORCE help setup develop run wheel azurite worker clients test check waiting computing static $(QUICK) infra templates fmt az audit coretools bench soak simulate clean distclean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: $(VENV)/.stamp local.settings.json ## install what running needs; `make check` and `make test` install the rest

# setup.sh checks each time whether something is missing.
$(VENV)/.stamp: FORCE
	@PYTHON="$(PYTHON)" sh setup.sh $(PART)

# What checks, tests and measurements need as well: it is installed at once, not after what running needs.
develop: PART = develop
develop: setup
	@PYTHON="$(PYTHON)" sh setup.sh develop

# Changes with the environment, so that whatever depends on it is rebuilt.
$(VENV)/pyvenv.cfg: $(VENV)/.stamp ;

local.settings.json: | local.settings.example.json
	@sh setup.sh settings

# Microsoft's worker library, which tests/worker compares with. Made for Python 3.13, it runs on 3.11 too.
$(WORKER)/.stamp: requirements.txt requirements-worker.txt $(VENV)/pyvenv.cfg
	@sh setup.sh worker $(WORKER)
	@touch $@

# Older management clients, each in its own folder, because they conflict with the newest; and the
# driver of a browser, which is larger than everything else together.
$(OLDER)/%/.stamp: tests/clients/%.txt $(VENV)/pyvenv.cfg
	@sh setup.sh client $< $(OLDER)/$*
	@touch $@

$(JAVASCRIPT)/node_modules/.stamp $(BROWSER)/node_modules/.stamp $(BULLMQ)/node_modules/.stamp $(CORE_TOOLS)/node_modules/.stamp: %/node_modules/.stamp: %/package.json %/package-lock.json | $(VENV)/.stamp
	@sh setup.sh javascript $*
	@touch $@

$(AZ)/.stamp: tests/az/requirements.txt $(VENV)/pyvenv.cfg
	@sh setup.sh az $(AZ)
	@touch $@

$(AUDIT)/.stamp: requirements-audit.txt $(VENV)/pyvenv.cfg
	@sh setup.sh audit $(AUDIT)
	@touch $@

$(CELERY)/.stamp: bench/peers/celery/requirements.txt $(VENV)/pyvenv.cfg
	@sh setup.sh celery $(CELERY)
	@touch $@

run: setup ## run an end-to-end demo on real components (ONCE=1: exit when it is complete)
	@$(PY) -m cli demo $(if $(ONCE),--once)

check: develop ## check format, lint, types and imports; run unit and functional tests, but for slow ones
	@$(MAKE) --no-print-directory -o develop -j 3 -O static $(QUICK)

static: develop
	@$(PY) -m ruff format --check --quiet $(CODE)
	@$(PY) -m ruff check --quiet $(CODE)
	@$(PY) -m mypy $(CODE)
	@$(VENV)/bin/lint-imports --no-cache > .import-linter.log || { cat .import-linter.log; exit 1; }
	@$(VENV)/bin/codespell $(CODE) docs README.md

# A process each: workers of one run would each collect all tests.
$(QUICK): develop
	@$(PY) -m pytest -q $(BRIEF) $@

infra: develop ## compile the Bicep templates, and compare them with their snapshots and the code (UPDATE=1: write the snapshots)
	@$(PY) -m tools.infra $(if $(UPDATE),--update)
	@$(PY) -m pytest -q tests/infra

templates: develop ## compile the templates of tests/data/configuration, and write what Bicep predicts of them
	@$(PY) -m tests.bicep

worker: $(WORKER)/.stamp ## install the worker library for tests/worker (part of `make test`)

clients: $(patsubst tests/clients/%.txt,$(OLDER)/%/.stamp,$(wildcard tests/clients/*.txt)) $(JAVASCRIPT)/node_modules/.stamp $(BROWSER)/node_modules/.stamp ## install other official clients and a browser for the tests (part of `make test`)

# Installing and waiting leave the processor to what computes.
test: develop ## run every check and test, with full property tests
	@$(MAKE) --no-print-directory -o develop -j 5 computing waiting BRIEF=

waiting: worker clients
	@$(PY) -m tests.package_list --size
	@$(PY) -m pytest -q $(BESIDE) $(addprefix --ignore=,$(QUICK) tests/infra) tests

# Each prints at its end what it has to say.
computing:
	@$(MAKE) --no-print-directory -o develop -O $(QUICK) static infra

az: develop $(AZ)/.stamp ## run the commands of docs/az.md with Azure CLI, and record its requests (first installs it: 733 MB, some minutes)
	@$(PY) -m tests.az

audit: develop $(AUDIT)/.stamp ## ask the advisories of PyPI and npm about every pinned package; needs their services
	@failed=; for file in $(PINNED); do echo "$$file"; $(AUDIT)/bin/pip-audit --progress-spinner off --disable-pip --require-hashes -r "$$file" || failed=1; done; \
	  PATH="$(CURDIR)/$(VENV)/bin:$$PATH"; for folder in $(LOCKED); do echo "$$folder"; npm audit --prefix "$$folder" || failed=1; done; [ -z "$$failed" ]

coretools: develop $(CORE_TOOLS)/node_modules/.stamp ## run tests/host on Azure Functions Core Tools, which download their host; takes an hour
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" npm rebuild --prefix $(CORE_TOOLS) azure-functions-core-tools
	@. $(VENV)/bin/activate; HOST_CMD='$(CORE_TOOLS)/node_modules/.bin/func start --script-root {root} --port {port}' python -m pytest tests/host

wheel: develop ## build the wheel into dist/, and prove it: run our suites on it, download and install everything, deliver an event (WITH=python3.13: for another Python)
	@rm -rf dist
	@$(PY) -m hatchling build --directory dist
	@echo "contract and functional suites on the wheel"; $(PY) -m tests.installed dist/*.whl
	@$(PY) -m tests.first_event $(if $(WITH),--python $(WITH))

azurite: setup ## run Azurite with its data in .azurite/
	@umask 077; PATH="$(CURDIR)/$(VENV)/bin:$$PATH" node node_modules/azurite/dist/src/azurite.js \
	  --silent --location .azurite --skipApiVersionCheck --disableTelemetry

fmt: develop ## format, and fix lint errors that can be fixed automatically
	@$(PY) -m ruff check --quiet --fix-only $(CODE)
	@$(PY) -m ruff format --quiet $(CODE)

bench: develop $(if $(filter peers,$(OF)),$(BULLMQ)/node_modules/.stamp $(CELERY)/.stamp) ## measure what a delivery costs (OF=home: pushgrid serve idle, with a million waiting, for half an hour; OF=slow: slow endpoints; OF=isolation: healthy beside failing ones; OF=filters; OF=operations; OF=simulation; OF=peers: beside job queues; APP=path: of another checkout)
	@APP="$(APP)" $(PY) -m bench $(or $(OF),price) $(ARGS)

soak: develop ## attack a deployment for half an hour: kills, faults, outages, shortages; judges each delivery (ARGS="--minutes 5 --store sqlite": of pushgrid serve; OF=ratios: a slow endpoint, an outage)
	@$(PY) -m bench $(or $(OF),soak) $(ARGS)

simulate: develop ## play a whole deployment in simulated time, 60 seeds of it on each home (SEEDS=2000; ARGS="--home sqlite --seed 7 --log": one, with its story)
	@$(PY) -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

clean: ## remove everything that setup and tests created
	@rm -rf $(VENV) $(WORKER) $(CELERY) $(AZ) $(AUDIT) $(OLDER) node_modules $(JAVASCRIPT)/node_modules $(BROWSER)/node_modules $(BULLMQ)/node_modules $(CORE_TOOLS)/node_modules .soak dist *.egg-info .hypothesis .coverage .*_cache .import-linter.log
	@find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## also remove local.settings.json, .azurite/ and the files in scratch/
	@rm -rf local.settings.json .azurite
	@find scratch -mindepth 1 ! -name .gitkeep -delete
