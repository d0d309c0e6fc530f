# Pushgrid. `make run` shows it at work; `make test` is what CI runs.
# Without it setup.sh takes the newest Python that will do.
PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
WORKER := .venv-worker
OLDER := .clients
JAVASCRIPT := tests/clients/javascript
CODE := shared devhost cli testbed bench tests tools $(wildcard *_function)
QUICK := tests/unit tests/functional
# Unit and functional tests wait for nothing: they take as many processes as there are cores.
PARALLEL := -n logical --maxprocesses 8
# The others mostly wait: for schedules, timeouts, outages. Each file stays in one process; the order
# is that of tests/conftest.py, which begins with the longest.
BESIDE := -n 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
FORCE:
.PHONY: FORCE help setup run azurite worker clients test check static quick infra fmt bench soak clean distclean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: $(VENV)/.stamp local.settings.json ## everything local runs and tests need

# It looks each time whether something is missing, and mostly nothing is.
$(VENV)/.stamp: FORCE
	@PYTHON="$(PYTHON)" sh setup.sh

# As old as the environment: what was made with another one is made anew.
$(VENV)/pyvenv.cfg: $(VENV)/.stamp ;

local.settings.json: | local.settings.example.json
	@cp local.settings.example.json $@

# The oracle of tests/worker. It is made for 3.13 and newer, and runs on 3.11 as well.
$(WORKER)/.stamp: requirements.txt requirements-worker.txt $(VENV)/pyvenv.cfg
	@sh setup.sh worker $(WORKER)
	@touch $@

# Older management clients, each in a folder of its own: they can't stand beside the newest.
$(OLDER)/%/.stamp: tests/clients/%.txt $(VENV)/pyvenv.cfg
	@sh setup.sh client $< $(OLDER)/$*
	@touch $@

$(JAVASCRIPT)/node_modules/.stamp: $(JAVASCRIPT)/package.json $(JAVASCRIPT)/package-lock.json | $(VENV)/.stamp
	@sh setup.sh javascript $(JAVASCRIPT)
	@touch $@

run: setup ## an end-to-end demo on real components (ONCE=1: exits when it is complete)
	@$(PY) -m cli demo $(if $(ONCE),--once)

check: setup ## format, lint, types, imports, unit and functional tests
	@$(MAKE) --no-print-directory -o setup -j 2 -O static quick

static: setup
	@$(PY) -m ruff format --check --quiet $(CODE)
	@$(PY) -m ruff check --quiet $(CODE)
	@$(PY) -m mypy $(CODE)
	@$(VENV)/bin/lint-imports --no-cache > .import-linter.log || { cat .import-linter.log; exit 1; }
	@$(VENV)/bin/codespell $(CODE) docs README.md

quick: setup
	@$(PY) -m pytest -q $(PARALLEL) --hypothesis-profile=quick $(QUICK)

infra: setup ## the templates without Azure, and how many seeded faults that check finds
	@$(PY) -m tools.bicepcheck infra
	@$(PY) -m tools.bicepcheck.score

worker: $(WORKER)/.stamp ## the oracle of tests/worker, which `make test` makes as well

clients: $(patsubst tests/clients/%.txt,$(OLDER)/%/.stamp,$(wildcard tests/clients/*.txt)) $(JAVASCRIPT)/node_modules/.stamp ## other official clients, which `make test` sets up as well

test: check worker clients infra ## every check and test there is; laws in full
	@$(PY) -m tests.package_list --size
	@$(PY) -m pytest -q $(PARALLEL) -m hypothesis $(QUICK)
	@$(PY) -m pytest -q $(BESIDE) $(addprefix --ignore=,$(QUICK)) tests tools

azurite: setup ## a storage for local runs that stays, in .azurite/
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" node node_modules/azurite/dist/src/azurite.js \
	  --silent --location .azurite --skipApiVersionCheck --disableTelemetry

fmt: setup ## format and mend what can be mended
	@$(PY) -m ruff check --quiet --fix-only $(CODE)
	@$(PY) -m ruff format --quiet $(CODE)

bench: setup ## throughput against its lower bounds (OF=isolation: healthy beside failing endpoints; OF=filters; OF=operations)
	@$(PY) -m bench $(or $(OF),throughput)

soak: setup ## minutes under trouble, judged by ratios: a slow endpoint beside a healthy one, an outage
	@$(PY) -m bench soak

clean: ## forget everything that setup and tests made
	@rm -rf $(VENV) $(WORKER) $(OLDER) node_modules $(JAVASCRIPT)/node_modules .infra-schemas .hypothesis .coverage .*_cache .import-linter.log
	@find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## the same, and what is yours: local.settings.json, .azurite/, scratch/
	@rm -rf local.settings.json .azurite
	@find scratch -mindepth 1 ! -name .gitkeep -delete
