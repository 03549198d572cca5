# `make demo` shows the main job, `make test` is what CI runs. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

HOST    := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
TARGET  := $(CURDIR)/target
RELEASE := $(TARGET)/release
# The kernels' Python environment; `make` keeps one per user, as `himalia up` does.
HIMALIA := $(RELEASE)/himalia
TOOLS   := $(TARGET)/tools
TEST_ENV := $(TARGET)/test-env
BENCH_ENV := $(TARGET)/bench-env
OTHER_KERNELS := $(TARGET)/other-kernels
TEST_LIBRARIES := $(TARGET)/test-libraries

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: prerequisites-build web ## himalia, himalia-shim and himalia-jail (both static) into target/release
	cargo build --locked --release -p himalia
	cargo build --locked --release -p himalia-shim -p himalia-jail --target $(HOST) \
	  --config 'target.$(HOST).rustflags=["-C","target-feature=+crt-static","--cfg","getrandom_backend=\"linux_raw\""]'
	install -m 755 $(TARGET)/$(HOST)/release/himalia-shim $(TARGET)/$(HOST)/release/himalia-jail $(RELEASE)

.PHONY: web
web: web/dist/index.html ## the viewer, into web/dist; `build` takes it into himalia

web/dist/index.html: $(shell find web/src web/frame web/public web/scripts web/*.* -type f) web/node_modules/.package-lock.json
	cd web && npm run --silent build

.PHONY: test-web
test-web: web/node_modules/.package-lock.json ## types, lint and tests of the viewer
	cd web && npm run --silent check && npm test --silent

.PHONY: env
env: build ## the locked Python environment for kernels, built once per lock file
	$(HIMALIA) env build

.PHONY: demo
demo: env ## a staged analysis of a public data set in one live kernel
	"$$($(HIMALIA) env path)/bin/python" examples/demo/demo.py --himalia $(HIMALIA)

.PHONY: crash-demo
crash-demo: env ## kill -9 of the gateway in mid-cell: nothing lost, nothing run twice
	"$$($(HIMALIA) env path)/bin/python" examples/demo/crash_demo.py --himalia $(HIMALIA)

.PHONY: fork-demo
fork-demo: env ## load once, fork the session three ways, keep the best model
	"$$($(HIMALIA) env path)/bin/python" examples/demo/fork_demo.py --himalia $(HIMALIA)

.PHONY: test
test: prerequisites lint test-rust test-web test-python test-js test-viewer test-docker ## everything that CI runs
	@echo "all suites passed"

.PHONY: lint
lint: prerequisites $(TOOLS)/bin/cargo-deny ## format, clippy, dependency policy
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(TOOLS)/bin/cargo-deny --locked check bans licenses sources

.PHONY: test-rust
test-rust: prerequisites ## unit, property, simulator and system tests
	cargo build --locked --workspace --bins  # the system tests start them
	cargo nextest run --locked --workspace
	cargo test --locked --workspace --doc --quiet

.PHONY: test-python
test-python: env $(TEST_ENV)/ready $(OTHER_KERNELS)/ready $(TEST_LIBRARIES)/ready ## nbclient, differential, sandbox and behaviour tests on real kernels
	HIMALIA_BIN=$(HIMALIA) HIMALIA_OTHER_KERNELS=$(OTHER_KERNELS) HIMALIA_TEST_LIBRARIES=$(TEST_LIBRARIES) \
	  $(TEST_ENV)/bin/python -m pytest -q tests/python

.PHONY: test-js
test-js: env $(TEST_ENV)/ready tests/js/node_modules/.package-lock.json ## JupyterLab in Chromium, @jupyterlab/services
	cd tests/js && HIMALIA_BIN=$(HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python npm test --silent

.PHONY: test-viewer
test-viewer: env web $(TEST_ENV)/ready tests/js/node_modules/.package-lock.json ## the viewer in Chromium on real kernels; its pictures are in tests/out
	cd tests/js && HIMALIA_BIN=$(HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python npm run test:viewer --silent

.PHONY: docker-images
docker-images: build ## the images of kernels and of the gateway, into the Docker engine
	docker/build-images.sh kernel gateway

.PHONY: test-docker
test-docker: env $(TEST_ENV)/ready ## sandboxes in containers, runc and gVisor, at an engine of its own if none answers
	HIMALIA_BIN=$(HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python HIMALIA_TEST_SHIM=$(RELEASE)/himalia-shim tests/docker/run.sh

.PHONY: bench
bench: env $(BENCH_ENV)/ready ## Himalia, its peers and no gateway at all, in one run
	$(BENCH_ENV)/bin/python tests/bench/run.py --out $(TARGET)/bench.json

.PHONY: bench-sandboxes
bench-sandboxes: env $(BENCH_ENV)/ready ## what a sandbox costs at LEVELS (namespaces,container; also gvisor), cold and warm
	$(BENCH_ENV)/bin/python tests/bench/sandboxes.py $(addprefix --levels ,$(LEVELS)) --out $(TARGET)/bench-sandboxes.json

.PHONY: bench-context
bench-context: env $(BENCH_ENV)/ready ## how many characters a model has to read after typical cells
	HIMALIA_BIN=$(HIMALIA) $(BENCH_ENV)/bin/python tests/bench/context.py --out $(TARGET)/bench-context.json

.PHONY: soak
soak: env $(TEST_LIBRARIES)/ready ## 1,000 forks of one session, 20 for each library of the matrix: nothing hangs or leaks
	HIMALIA_TEST_LIBRARIES=$(TEST_LIBRARIES) \
	  $(TEST_ENV)/bin/python tests/soak/forks.py --python "$$($(HIMALIA) env path)/bin/python"

.PHONY: openapi
openapi: ## docs/openapi.json, from the code
	HIMALIA_WRITE_OPENAPI=1 cargo test --locked -p himalia-http --test openapi

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_SECONDS (60) each; needs cargo-fuzz and a nightly toolchain
	for target in $$(cd crates/wire && cargo +nightly fuzz list); do \
	  (cd crates/wire && cargo +nightly fuzz run $$target -- -max_total_time=$${FUZZ_SECONDS:-60}); done

.PHONY: prerequisites prerequisites-build
prerequisites: ## what the tests need from the system; installed on Debian as root
	@tests/prerequisites.sh test
prerequisites-build:
	@tests/prerequisites.sh build

$(TOOLS)/bin/cargo-deny:
	cargo install --quiet --debug --locked --root $(TOOLS) --target-dir $(TARGET)/tools-build cargo-deny@0.20.2
	rm -rf $(TARGET)/tools-build

$(TEST_ENV)/ready: tests/requirements.lock
	rm -rf $(TEST_ENV) && python3 -m venv $(TEST_ENV)
	$(TEST_ENV)/bin/pip install --quiet --require-hashes -r tests/requirements.lock
	touch $@

$(OTHER_KERNELS)/ready: tests/other-kernels/requirements.lock
	rm -rf $(OTHER_KERNELS) && python3 -m venv $(OTHER_KERNELS)
	$(OTHER_KERNELS)/bin/pip install --quiet --require-hashes -r tests/other-kernels/requirements.lock
	$(OTHER_KERNELS)/bin/python -m bash_kernel.install --sys-prefix
	touch $@

$(TEST_LIBRARIES)/ready: tests/libraries/requirements.lock $(TEST_ENV)/ready
	rm -rf $(TEST_LIBRARIES)
	$(TEST_ENV)/bin/pip install --quiet --no-deps --require-hashes --target $(TEST_LIBRARIES) -r tests/libraries/requirements.lock
	touch $@

$(BENCH_ENV)/ready: tests/bench/requirements.lock
	rm -rf $(BENCH_ENV) && python3 -m venv $(BENCH_ENV)
	$(BENCH_ENV)/bin/pip install --quiet --require-hashes -r tests/bench/requirements.lock
	touch $@

tests/js/node_modules/.package-lock.json: tests/js/package-lock.json
	cd tests/js && npm ci --silent --no-audit --no-fund
	touch $@

# Not `npm ci`: of packages that each platform has one of, the lock file has those of Linux only.
web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm install --no-save --ignore-scripts --silent --no-audit --no-fund
	touch $@

.PHONY: clean
clean: ## remove everything that was built here
	cargo clean
	rm -rf tests/js/node_modules tests/out web/node_modules
	find web/dist -mindepth 1 ! -name .gitkeep -delete
