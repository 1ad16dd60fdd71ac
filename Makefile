# Every target sets up what it needs; on a fresh machine `make demo` is the first command to try.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Else every process that a test starts compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMP := .venv/.set-up
DEV_STAMP := .venv/.set-up-for-development
TESTS_STAMP := .venv/.set-up-for-tests
WEB_APP := src/hutch/web/index.html
VSCODE_MODULES := editors/vscode/node_modules/.hutch
CLIENT_TYPES := clients/typescript/src/schema.ts
WEB_SOURCES = $(shell find web/src web/*.json web/*.ts web/index.html -type f ! -path web/src/api/schema.ts)
# On two cores: tests wait for much of their time.
WORKERS := 6
ROOMS :=
BASE := main
COUNT := 50

.PHONY: help setup web vscode demo check test controls soak repeat unit pages bench lint docs fresh outside clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) $(if $(filter skip,$(WEB)),,$(WEB_APP)) ## Install what Hutch needs and build the web app (PYTHON=… picks the interpreter)
	@:

web: $(WEB_APP) ## Build the web app
	@:

$(WEB_APP): $(WEB_SOURCES) docs/openapi.json scripts/web-app | $(STAMP)
	@scripts/web-app

vscode: $(STAMP) ## Build the VS Code extension, dist/hutch-vscode-VERSION.vsix
	@scripts/vscode-extension

$(VSCODE_MODULES): editors/vscode/package-lock.json scripts/vscode-extension | $(STAMP)
	@scripts/vscode-extension --modules

# The web app has generated them from the same document.
$(CLIENT_TYPES): docs/openapi.json | $(WEB_APP)
	@cp web/src/api/schema.ts $@

$(STAMP): uv.lock pyproject.toml system-packages.txt scripts/system-packages scripts/python-environment
	@$(if $(filter skip,$(SYSTEM_PACKAGES)),,scripts/system-packages system-packages.txt)
	@PYTHON='$(PYTHON)' scripts/python-environment
	@touch $@

$(DEV_STAMP): $(STAMP)
	@scripts/python-environment --dev
	@touch $@

$(TESTS_STAMP): $(DEV_STAMP)
	@$(if $(filter skip,$(SYSTEM_PACKAGES)),,scripts/system-packages --tests system-packages.txt)
	@touch $@

demo: setup ## Show what Hutch does, in a minute
	@$(BIN)/python scripts/demo.py

check: $(DEV_STAMP) ## Check style, types, generated pages, house rules, and run the unit tests (a minute)
	@$(MAKE) -j 2 --output-sync=target lint pages unit

test: $(TESTS_STAMP) $(WEB_APP) $(VSCODE_MODULES) ## Check style, types and pages, and run all tests; ROOMS=changed or ROOMS=jail,store: some
	@$(BIN)/python -m scripts.run_tests test --workers $(WORKERS) --rooms '$(ROOMS)' --base '$(BASE)' --beside 'make lint pages'

controls: $(TESTS_STAMP) ## Run the attacks with their guards off, after a change of them or of the jail
	@$(BIN)/python -m scripts.run_tests controls

soak: controls $(VSCODE_MODULES) ## Run the long tests, and the controls of the attacks
	@$(BIN)/python -m scripts.run_tests soak

repeat: WORKERS := 2
repeat: $(TESTS_STAMP) ## Run the tests of TESTS (their ids) COUNT times, 50 unless said otherwise
	@$(BIN)/python -m pytest -p tests.repeat_plugin -p tests.hang_plugin --repeat $(COUNT) -n $(WORKERS) -m '' -p no:cacheprovider $(or $(TESTS),$(error TESTS is empty: name the tests to repeat))

unit: $(DEV_STAMP)
	@$(BIN)/python -m scripts.run_tests check --workers 2

pages: $(DEV_STAMP)
	$(BIN)/python scripts/settings_reference.py --check
	$(BIN)/python scripts/cli_reference.py --check
	$(BIN)/python scripts/attack_table.py --check
	$(BIN)/python scripts/openapi.py --check
	$(BIN)/python scripts/mcp_tool_list.py --check

bench: $(DEV_STAMP) ## Measure, side by side with the bare thing
	@$(BIN)/python bench/run.py

lint: $(DEV_STAMP) $(WEB_APP) $(VSCODE_MODULES) $(CLIENT_TYPES) ## Check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cd web && PATH=../$(BIN):$$PATH npm run --silent lint && PATH=../$(BIN):$$PATH npm run --silent test -- --silent
	cd editors/vscode && PATH=../../$(BIN):$$PATH npm run --silent lint

docs: $(DEV_STAMP) ## Generate docs/settings.md, docs/cli.md and docs/openapi.json
	$(BIN)/python scripts/settings_reference.py
	$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/attack_table.py
	$(BIN)/python scripts/openapi.py
	$(BIN)/python scripts/mcp_tool_list.py

fresh: ## Try make demo and make test on a bare machine, as root and as an ordinary user
	@scripts/fresh both

outside: $(TESTS_STAMP) ## Run the tests that a bare machine in namespaces has to skip
	@grep -v '^#' tests/outside.txt | tee /dev/stderr | sed 's/  # .*//' | xargs -d '\n' $(BIN)/python -m pytest -p no:cacheprovider

clean: ## Remove .venv and everything else that can be made again
	rm -rf .venv dist src/hutch/web web/node_modules editors/vscode/node_modules editors/vscode/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests bench scripts -name __pycache__ -prune -exec rm -rf {} +
