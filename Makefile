# `make demo` shows the main job, `make test` is what CI runs. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

HOST    := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
TARGET  := $(CURDIR)/target
# `release` builds quickly. `dist` adds link-time optimisation across crates: it is what `make bench` measures.
PROFILE := release
RELEASE = $(TARGET)/$(PROFILE)
# It keeps the kernels' Python environment per user, as `himalia up` does.
HIMALIA = $(RELEASE)/himalia
TOOLS   := $(TARGET)/tools
TEST_ENV := $(TARGET)/test-env
# What the tests with real clients run: the programs that `test-rust` has built, so that nothing is compiled in two profiles.
TEST_PROGRAMS := $(TARGET)/test-programs
TEST_HIMALIA := $(TEST_PROGRAMS)/himalia
BENCH_ENV := $(TARGET)/bench-env
S3_OPTIMISED := $(TARGET)/tools-optimised/bin/s3s-fs
OTHER_KERNELS := $(TARGET)/other-kernels
AGENTS_ENV := $(TARGET)/agents-env
# Their tests run side by side; the directory of a suite is in tests/python.
PYTHON_SUITES := docs kernel e2e client
TEST_LIBRARIES := $(TARGET)/test-libraries
CHART_ENV := $(TARGET)/chart-env
NEXTEST := 0.9.143
CARGO_DENY := 0.20.2
CARGO_MACHETE := 0.9.2
MDBOOK := 0.5.4
CARGO_CYCLONEDX := 0.5.7
S3S_FS := 0.14.1
# How often a test that fails runs again, at most. CI sets 1.
RERUNS ?= 0
# Rust tests that run at the same time: they wait more than they compute.
export NEXTEST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
# Python tests that run at the same time; 0: one after the other. Those of sandboxes fill memory and process tables: one at a time.
PYTEST_WORKERS ?= 2
PYTEST = HIMALIA_BIN=$(TEST_HIMALIA) HIMALIA_TEST_HELM=$(CHART_ENV)/bin/helm HIMALIA_OTHER_KERNELS=$(OTHER_KERNELS) HIMALIA_TEST_LIBRARIES=$(TEST_LIBRARIES) \
  $(TEST_ENV)/bin/python -m pytest -q --reruns $(RERUNS)
PYTEST_NEEDS = test-programs $(TEST_ENV)/ready $(CHART_ENV)/ready clients/javascript/dist/index.js $(OTHER_KERNELS)/ready $(TEST_LIBRARIES)/ready tests/js/node_modules/.package-lock.json

# Tools are built for a short build, not for speed.
INSTALL = CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --root $(TOOLS) --target-dir $(TARGET)/tools-build

# What was fetched because the system has none: Node, cargo-nextest.
export PATH := $(TOOLS)/node/bin:$(TOOLS)/bin:$(PATH)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 24

# Recorded in `himalia --version`; `make test` does not, so that a commit alone compiles nothing again.
COMMIT = $(shell git describe --always --exclude '*' --abbrev=12 --dirty=-changed 2>/dev/null)
build wheel: export HIMALIA_COMMIT = $(COMMIT)

.PHONY: build
build: check-build ## himalia, himalia-shim and himalia-jail (both static) into target/release
	$(MAKE) --no-print-directory -j2 PROFILE=$(PROFILE) web static-programs
	cargo build --locked --profile $(PROFILE) -p himalia

.PHONY: dist
dist: PROFILE = dist
dist: build ## the same with link-time optimisation, into target/dist

# Programs that run inside a sandbox, whatever C library it has, into RELEASE.
.PHONY: static-programs
static-programs: check-build
	cargo build --locked --profile $(PROFILE) -p himalia-shim -p himalia-jail --target $(HOST) \
	  --config 'target.$(HOST).rustflags=["-C","target-feature=+crt-static","--cfg","getrandom_backend=\"linux_raw\""]'
	mkdir -p $(RELEASE)
	install -C -m 755 $(addprefix $(TARGET)/$(HOST)/$(PROFILE:dev=debug)/,himalia-shim himalia-jail) $(RELEASE)

.PHONY: web
web: web/dist/index.html ## the viewer, into web/dist; `build` takes it into himalia

web/dist/index.html: $(shell find web/src web/frame web/public web/scripts web/*.* clients/javascript/src -type f) web/node_modules/.package-lock.json
	cd web && npm run --silent build

.PHONY: test-web
test-web: web/node_modules/.package-lock.json clients/javascript/node_modules/.package-lock.json ## types, lint and tests of the viewer; types and lint of the client for JavaScript
	cd clients/javascript && npm run --silent check
	cd web && npm run --silent check && npm test --silent

clients/javascript/dist/index.js: $(wildcard clients/javascript/src/*.ts) clients/javascript/node_modules/.package-lock.json
	cd clients/javascript && npm run --silent build

.PHONY: env
env: build ## the locked Python environment for kernels, built once per lock file
	$(HIMALIA) env build

# The programs of the demos and their environment: not optimised, in one pass, and without the parts that are cargo features.
.PHONY: quick
quick: check-build
	cargo build --locked --profile $(PROFILE) --no-default-features -p himalia -p himalia-shim -p himalia-jail
	$(HIMALIA) env build

demo crash-demo fork-demo tools-demo: PROFILE = quick

.PHONY: demo
demo: ensure-build quick ## a staged analysis of a public data set in one live kernel
	"$$($(HIMALIA) env path)/bin/python" examples/demo/demo.py --himalia $(HIMALIA)

.PHONY: crash-demo
crash-demo: quick ## kill -9 of the gateway while a cell runs: nothing lost, nothing run twice
	"$$($(HIMALIA) env path)/bin/python" examples/demo/crash_demo.py --himalia $(HIMALIA)

.PHONY: fork-demo
fork-demo: quick ## load once, fork the session three ways, keep the best model
	"$$($(HIMALIA) env path)/bin/python" examples/demo/fork_demo.py --himalia $(HIMALIA)

.PHONY: tools-demo
tools-demo: quick ## three services, four skills that call their tools, a workflow that waits for a person, a monthly schedule, a report with a plot
	"$$($(HIMALIA) env path)/bin/python" examples/demo/tools_demo.py --himalia $(HIMALIA)

.PHONY: test
test: ensure-test style test-rust ## everything that CI runs
	# These wait more than they compute: three at a time, the longest first. Each prints when it has ended.
	$(MAKE) --no-print-directory -j3 --output-sync=target test-sandbox test-docker lint-beside test-python test-web test-viewer test-js
	@echo "all suites passed"

# What takes long of `lint`, in the time in which the suites wait. Their programs come first: one build at a time has Cargo's lock.
.PHONY: lint-beside
lint-beside: test-programs
	nice -n 19 $(MAKE) --no-print-directory policy

# The programs in TEST_PROGRAMS. `test-rust` builds with the same command, without the viewer.
.PHONY: test-programs
test-programs: check-build web
	cargo build --locked --workspace --bins --tests
	$(MAKE) --no-print-directory static-programs PROFILE=dev RELEASE=$(TEST_PROGRAMS)
	install -C -m 755 $(TARGET)/debug/himalia $(TEST_PROGRAMS)
	$(TEST_HIMALIA) env build

.PHONY: check
check: check-rust-tests nextest style ## the inner loop: format, clippy, words, unit and simulator tests (2,000 schedules)
	cargo clippy --locked --workspace --all-targets -- -D warnings
	HIMALIA_SIM_SCHEDULES=$(or $(HIMALIA_SIM_SCHEDULES),2000) cargo nextest run --locked --workspace --lib --bins

.PHONY: style
style: check-rust ## format, words, counts that may only fall, generated files; a few seconds
	cargo fmt --all --check
	tests/words.py
	tests/slices.py
	tests/circles.py
	clients/python/generate.py --check
	clients/javascript/generate.py --check
	tests/rest/pages.py

.PHONY: lint policy
lint: style policy ## `style`, clippy, dependency policy; the fuzz targets compile (nothing is linked)
policy: machete $(TOOLS)/bin/cargo-deny
	cargo clippy --locked --workspace --all-targets -- -D warnings
	# The other end of the cargo features.
	cargo clippy --locked --workspace --no-default-features -- -D warnings
	CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a cargo check --locked --quiet --manifest-path crates/wire/fuzz/Cargo.toml --target-dir $(TARGET)/fuzz
	$(TOOLS)/bin/cargo-deny --locked check bans licenses sources

.PHONY: doc
doc: check-rust ## the documentation of all crates; a broken link or a missing page fails
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --locked --workspace --no-deps

.PHONY: machete
machete: $(TOOLS)/bin/cargo-machete ## dependencies that no code uses
	$(TOOLS)/bin/cargo-machete --skip-target-dir

.PHONY: test-rust
test-rust: check-rust-tests nextest ## unit, property, simulator and system tests
	# Programs and tests in one call: Cargo builds the dependencies once, with the same features for both.
	cargo build --locked --workspace --bins --tests
	cargo nextest run --locked --workspace --retries $(RERUNS)
	# The system tests of sessions once more, with shims that listen for the gateway.
	HIMALIA_TEST_TRANSPORT=tls cargo nextest run --locked --workspace --retries $(RERUNS) -E '(package(himalia-engine) | package(himalia-runs)) & binary(suite)'
	cargo test --locked --workspace --doc --quiet

.PHONY: test-python
test-python: $(PYTEST_NEEDS) s3 ## nbclient, differential and behaviour tests on real kernels
	$(PYTEST) -m "not long" -n $(PYTEST_WORKERS) --dist loadfile $(addprefix tests/python/,$(PYTHON_SUITES))

.PHONY: test-sandbox
test-sandbox: $(PYTEST_NEEDS) ## sandboxes of namespaces, through a gateway
	$(PYTEST) -m "not long" tests/python/sandbox

.PHONY: test-python-long
test-python-long: $(PYTEST_NEEDS)
	$(PYTEST) -m long -n $(PYTEST_WORKERS) --dist load $(addprefix tests/python/,$(PYTHON_SUITES))

.PHONY: test-examples
test-examples: test-programs $(TEST_ENV)/ready $(AGENTS_ENV)/ready ## the examples of agents with a model that follows a script, and unmodified clients of the facades; their packages take 700 MB
	HIMALIA_BIN=$(TEST_HIMALIA) HIMALIA_AGENTS_PYTHON=$(AGENTS_ENV)/bin/python $(TEST_ENV)/bin/python -m pytest -q tests/python/frameworks

.PHONY: test-chaos
test-chaos: test-programs $(TEST_ENV)/ready s3 ## three replicas with SESSIONS (100) sessions lose processes, database and object store ROUNDS (200) times at random
	HIMALIA_BIN=$(TEST_HIMALIA) HIMALIA_SCRIPTED=$(TARGET)/debug/himalia-fake-kernel \
	  HIMALIA_CHAOS_SESSIONS=$(or $(SESSIONS),100) HIMALIA_CHAOS_ROUNDS=$(or $(ROUNDS),200) HIMALIA_CHAOS_SEED=$(SEED) \
	  $(TEST_ENV)/bin/python -m pytest -q -rP tests/python/chaos

.PHONY: test-pythons
test-pythons: ## the kernel package's tests on PYTHONS (3.13 3.14), each from a Debian release that has it
	tests/pythons/run.sh $(or $(PYTHONS),3.13 3.14)

.PHONY: test-js
test-js: test-programs $(TEST_ENV)/ready tests/js/node_modules/.package-lock.json clients/javascript/dist/index.js ## JupyterLab in Chromium, @jupyterlab/services, the client for JavaScript
	cd tests/js && HIMALIA_BIN=$(TEST_HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python ../rerun.sh npm test --silent

# The suite of MCP and a Node that is new enough for it. Neither is part of the repository.
MCP_CONFORMANCE := 0.2.0-alpha.12
MCP_CONFORMANCE_NODE := 22.23.5
MCP_SUITE := $(TARGET)/mcp-conformance/$(MCP_CONFORMANCE)

$(MCP_SUITE)/ready: | node
	mkdir -p $(MCP_SUITE)
	cd $(MCP_SUITE) && npm install --ignore-scripts --silent --no-audit --no-fund --prefix . \
	  @modelcontextprotocol/conformance@$(MCP_CONFORMANCE) node-linux-$(if $(filter aarch64%,$(HOST)),arm64,x64)@$(MCP_CONFORMANCE_NODE)
	touch $@

.PHONY: test-mcp-conformance
test-mcp-conformance: test-programs $(TEST_ENV)/ready $(MCP_SUITE)/ready ## the conformance suite of MCP against /mcp and against the client of tool servers, scenario after scenario; WRITE=1 adds scenarios that pass and writes the page
	HIMALIA_BIN=$(TEST_HIMALIA) $(TEST_ENV)/bin/python tests/conformance/mcp/run.py --suite $(MCP_SUITE) \
	  --node "$$(echo $(MCP_SUITE)/node_modules/node-linux-*/bin/node)" --out $(TARGET)/mcp-conformance/out --reruns $(RERUNS) $(if $(WRITE),--write) $(SCENARIOS)

.PHONY: test-viewer
test-viewer: test-programs $(TEST_ENV)/ready tests/js/node_modules/.package-lock.json ## the viewer in Chromium on real kernels; its pictures are in tests/out
	cd tests/js && HIMALIA_BIN=$(TEST_HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python ../rerun.sh npm run test:viewer --silent

.PHONY: docker-images
docker-images: build ## the images of kernels, of the gateway and of the init container of pods, into the Docker engine
	docker/build-images.sh kernel gateway agent

.PHONY: test-docker
test-docker: test-programs $(TEST_ENV)/ready $(TEST_LIBRARIES)/ready ## sandboxes in containers, runc and gVisor, at an engine of its own if none answers
	HIMALIA_BIN=$(TEST_HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python HIMALIA_TEST_SHIM=$(TEST_PROGRAMS)/himalia-shim HIMALIA_TEST_LIBRARIES=$(TEST_LIBRARIES) tests/docker/run.sh

.PHONY: test-kubernetes
test-kubernetes: test-programs $(TEST_ENV)/ready $(CHART_ENV)/ready s3 check-kubernetes check-rust-tests ## sandboxes as pods of a real cluster: that of KUBECONFIG, or one built from Debian's archive
	HIMALIA_BIN=$(TEST_HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python HIMALIA_TEST_HELM=$(CHART_ENV)/bin/helm HIMALIA_TEST_SHIM=$(TEST_PROGRAMS)/himalia-shim tests/kubernetes/run.sh

.PHONY: cluster-demo
cluster-demo: test-programs $(TEST_ENV)/ready s3 check-kubernetes check-rust-tests ## three replicas as pods of a cluster that is built here, with Postgres and S3, a staged analysis, and kill -9 of the owner while a cell runs
	HIMALIA_BIN=$(TEST_HIMALIA) TEST_PYTHON=$(TEST_ENV)/bin/python HIMALIA_TEST_SHIM=$(TEST_PROGRAMS)/himalia-shim tests/kubernetes/run.sh demo

.PHONY: test-images
test-images: $(TEST_ENV)/ready ## the images of the gateway and of kernels from their sources, on bases that are made here
	TEST_PYTHON=$(TEST_ENV)/bin/python tests/docker/images.sh

# Linked against an old glibc by `zig`, so that one wheel serves every Linux; the other programs are static.
WHEEL_ENV := $(TARGET)/wheel-env
WHEEL_TARGET := $(TARGET)/wheel-build
.PHONY: wheel
wheel: PROFILE = dist
wheel: web static-programs $(WHEEL_ENV)/ready ## the Python client with the programs of the gateway in it, into target/wheels
	PATH=$(WHEEL_ENV)/bin:$$PATH CARGO_TARGET_DIR=$(WHEEL_TARGET) cargo zigbuild --locked --profile $(PROFILE) -p himalia --target $(HOST).2.17
	mkdir -p $(WHEEL_TARGET)/programs
	install -m 755 $(WHEEL_TARGET)/$(HOST)/$(PROFILE:dev=debug)/himalia $(RELEASE)/himalia-shim $(RELEASE)/himalia-jail $(WHEEL_TARGET)/programs
	clients/python/wheel.py --programs $(WHEEL_TARGET)/programs --out $(TARGET)/wheels

$(WHEEL_ENV)/ready: clients/python/zig/requirements.lock
	rm -rf $(WHEEL_ENV) && python3 -m venv $(WHEEL_ENV)
	$(WHEEL_ENV)/bin/pip install --quiet --require-hashes -r clients/python/zig/requirements.lock
	touch $@

# All files of a release that need no account, from a build in the profile `dist` unless PROFILE=NAME is an argument. PROGRAMS is a directory with
# the three programs, instead of a build. REPOSITORY is OWNER/NAME on GitHub; packaging/release/project.py has the default.
RELEASE_FILES := $(TARGET)/release-files
REPOSITORY ?=
PROGRAMS ?=
.PHONY: release release-files release-arm64
release: ## the files of a release, into target/release-files
	rm -rf $(RELEASE_FILES)
	$(if $(PROGRAMS),,$(MAKE) --no-print-directory wheel)
	$(MAKE) --no-print-directory release-files PROGRAMS=$(or $(PROGRAMS),$(WHEEL_TARGET)/programs)

release-files: clients/javascript/dist/index.js $(TOOLS)/bin/cargo-cyclonedx
	mkdir -p $(RELEASE_FILES)
	clients/python/wheel.py --programs $(PROGRAMS) --out $(RELEASE_FILES)
	clients/python/wheel.py --client --out $(RELEASE_FILES)
	cp LICENSE clients/javascript/ && cd clients/javascript && npm pack --silent --pack-destination $(RELEASE_FILES) && rm LICENSE
	cd crates/himalia && $(TOOLS)/bin/cargo-cyclonedx cyclonedx --quiet --format json --spec-version 1.5 --override-filename himalia.cdx
	mv crates/himalia/himalia.cdx.json $(RELEASE_FILES)/ && find crates -mindepth 2 -maxdepth 2 -name '*.cdx.json' -delete
	packaging/release/make.py --programs $(PROGRAMS) $(addprefix --repository ,$(REPOSITORY)) --sums --out $(RELEASE_FILES)

# Adds the programs of 64-bit ARM to target/release-files: run it after `release`. Node and Rust's libraries for both targets have to be there.
release-arm64: PROFILE = dist
release-arm64: export HIMALIA_COMMIT = $(COMMIT)
release-arm64: web check-arm64 $(WHEEL_ENV)/ready ## adds the files of 64-bit ARM to target/release-files
	packaging/release/arm64.sh $(PROFILE) $(WHEEL_ENV) $(WHEEL_TARGET)
	clients/python/wheel.py --programs $(WHEEL_TARGET)/programs-aarch64 --machine aarch64 --out $(RELEASE_FILES)
	packaging/release/make.py --programs $(WHEEL_TARGET)/programs-aarch64 --machine aarch64 --only programs --sums --out $(RELEASE_FILES)

.PHONY: test-release
test-release: $(TEST_ENV)/ready ## installs every file of target/release-files from the file alone, and uses it
	HIMALIA_RELEASE_FILES=$(RELEASE_FILES) $(TEST_ENV)/bin/python -m pytest -q tests/python/release

.PHONY: test-wheel
test-wheel: wheel ## from an empty machine with Python to the first plot, with the wheel alone
	tests/fresh/wheel.sh $(TARGET)/wheels/*.whl

.PHONY: test-fresh
test-fresh: ## README's commands in a minimal Debian that has the Rust toolchain alone; WHAT=test runs all of `test` there
	tests/fresh/run.sh $(or $(WHAT),demo)

.PHONY: test-cgroup2
test-cgroup2: check-build check-cgroup2 ## sandboxes of namespaces under control groups of version 2, in a virtual machine with DEBIAN's systemd (trixie; this machine's release)
	tests/cgroup2/run.sh $(DEBIAN)

.PHONY: test-arm64
test-arm64: check-build check-arm64 ## the shim and the jail for 64-bit ARM, in QEMU
	tests/arm64/run.sh

.PHONY: test-upgrade
# Without OLD, which no release can be yet, this build takes over from itself.
test-upgrade: test-programs $(TEST_ENV)/ready ## sandboxes, sessions and logs of the version at commit OLD (default: of this build), taken over by this one
	$(if $(OLD),tests/upgrade/build.sh $(OLD) $(TARGET)/upgrade)
	HIMALIA_BIN=$(TEST_HIMALIA) $(if $(OLD),HIMALIA_OLD_BIN=$(TARGET)/upgrade/bin/himalia) $(TEST_ENV)/bin/python -m pytest -q tests/python/upgrade

.PHONY: test-long
# Of the other Pythons the newest is enough: `make test` has the oldest, and `test-pythons` has all.
test-long: check-test test-programs ## what takes too long for `test`; CI runs it as well
	# These wait more than they compute, as those of `test` do.
	$(MAKE) --no-print-directory -j2 --output-sync=target PYTHONS=3.14 test-pythons test-python-long test-mcp-conformance test-jupyter-server bench-context simulate-replicas

.PHONY: simulate-replicas
simulate-replicas: check-rust
	HIMALIA_SIM_SCHEDULES=1000000 cargo test --locked --workspace --lib -- schedules_of_three_replicas

.PHONY: bench
bench: PROFILE = dist
bench: env $(BENCH_ENV)/ready ## Himalia, its peers and no gateway at all, in one run; writes docs/bench and the tables
	HIMALIA_BIN=$(HIMALIA) $(BENCH_ENV)/bin/python tests/bench/run.py --out docs/bench/gateway.json
	HIMALIA_BIN=$(HIMALIA) python3 tests/bench/network.py --out docs/bench/network.json
	python3 tests/bench/readme.py --write

.PHONY: bench-network
bench-network: PROFILE = dist
bench-network: env ## the proxy of sandboxes alone, against none and tinyproxy; writes docs/bench and the table
	HIMALIA_BIN=$(HIMALIA) python3 tests/bench/network.py --out docs/bench/network.json
	python3 tests/bench/readme.py --write

.PHONY: bench-tools
bench-tools: PROFILE = dist
bench-tools: env ## calls of tools from code against the same requests without Himalia, search, and what a model reads; writes docs/bench and the table
	HIMALIA_BIN=$(HIMALIA) python3 tests/bench/tools.py --out docs/bench/tools.json
	python3 tests/bench/readme.py --write

.PHONY: bench-build
bench-build: ensure-build ## `make demo` from nothing: wall and processor time, crates, lines, sizes; writes docs/bench and the table
	python3 tests/bench/build.py --out docs/bench/build.json
	python3 tests/bench/readme.py --write

.PHONY: timings
timings: ensure-test ## prints the minutes of each test target, in a new clone (over an hour)
	python3 tests/bench/timings.py

.PHONY: bench-wheel
bench-wheel: wheel ## the seconds of `test-wheel`; writes docs/bench and the table
	python3 tests/bench/wheel.py $(TARGET)/wheels/*.whl --out docs/bench/wheel.json
	python3 tests/bench/readme.py --write

.PHONY: bench-sandboxes
bench-sandboxes: PROFILE = dist
bench-sandboxes: env $(BENCH_ENV)/ready ## what a sandbox costs at LEVELS (namespaces,container,gvisor), cold and warm; writes docs/bench and the tables
	HIMALIA_BIN=$(HIMALIA) $(BENCH_ENV)/bin/python tests/bench/sandboxes.py $(addprefix --levels ,$(LEVELS)) --out docs/bench/sandboxes.json
	python3 tests/bench/readme.py --write

.PHONY: bench-readme
bench-readme: ## the tables of README and docs/explain/performance.md, from docs/bench
	python3 tests/bench/readme.py --write

.PHONY: bench-context
bench-context: test-programs $(BENCH_ENV)/ready ## how many characters a model has to read after typical cells
	HIMALIA_BIN=$(TEST_HIMALIA) $(BENCH_ENV)/bin/python tests/bench/context.py --out $(TARGET)/bench-context.json

.PHONY: bench-cluster
bench-cluster: PROFILE = dist
bench-cluster: ROWS = base,known,claims
bench-cluster: env $(BENCH_ENV)/ready $(S3_OPTIMISED) check-rust-tests ## three replicas on Postgres and S3 against one gateway alone, in one run; writes docs/bench and the table
	cargo build --locked --profile $(PROFILE) -p himalia-testkit -p himalia-shim --bins
	HIMALIA_BIN=$(HIMALIA) HIMALIA_TEST_S3=$(S3_OPTIMISED) HIMALIA_SCRIPTED=$(RELEASE)/himalia-fake-kernel $(BENCH_ENV)/bin/python tests/bench/cluster.py --rows $(ROWS) --out docs/bench/cluster.json
	python3 tests/bench/readme.py --write

.PHONY: bench-fairness
bench-fairness: PROFILE = dist
bench-fairness: env ## what one tenant's floods cost another, as ratios of one run
	HIMALIA_BIN=$(HIMALIA) python3 tests/bench/fairness.py --out $(TARGET)/bench-fairness.json

.PHONY: site
site: $(TOOLS)/bin/mdbook ## the pages as a site with search, into target/site; checks its links and anchors
	docs/book.py --mdbook $(TOOLS)/bin/mdbook --target $(TARGET)

.PHONY: autobahn
autobahn: check-build ## the Autobahn test suite against the WebSocket layer (needs Python 2.7, in PYTHON2 or on the path); writes docs/contributing/autobahn.md
	python3 tests/autobahn/run.py --out docs/contributing/autobahn.md

.PHONY: soak
soak: env $(TEST_LIBRARIES)/ready ## 1,000 forks of one session, 20 for each library of the matrix: nothing hangs or leaks
	HIMALIA_TEST_LIBRARIES=$(TEST_LIBRARIES) \
	  $(TEST_ENV)/bin/python tests/soak/forks.py --python "$$($(HIMALIA) env path)/bin/python"

.PHONY: advisories
advisories: $(TOOLS)/bin/cargo-deny node ## known vulnerabilities of the dependencies; needs the network's databases
	$(TOOLS)/bin/cargo-deny --locked check advisories
	cd web && npm audit
	cd tests/js && npm audit

.PHONY: openapi
openapi: ## docs/openapi.json and docs/reference/errors.md, from the code; and the types of the client for JavaScript
	HIMALIA_WRITE_OPENAPI=1 cargo test --locked -p himalia-http --test suite openapi
	clients/javascript/generate.py

.PHONY: simulate
simulate: check-rust ## the kernel core under SCHEDULES (1,000,000) random schedules of requests and faults, three replicas under a fiftieth of them
	HIMALIA_SIM_SCHEDULES=$(or $(SCHEDULES),1000000) cargo test --locked --workspace --lib -- schedules

.PHONY: metrics
metrics: ## the tables of metrics and commands in docs/operate/operations.md, from the code
	HIMALIA_WRITE_METRICS=1 cargo test --locked -p himalia-metrics the_table
	HIMALIA_WRITE_METRICS=1 cargo test --locked -p himalia-runs --test suite the_table

.PHONY: settings
settings: ## the table of settings in docs/reference/configuration.md, from the code
	HIMALIA_WRITE_SETTINGS=1 cargo test --locked -p himalia --bin himalia settings

.PHONY: cli
cli: ## docs/reference/cli.md, from the code
	HIMALIA_WRITE_CLI=1 cargo test --locked -p himalia --bin himalia the_page_of_the_command_line

.PHONY: rest
rest: test-programs $(TEST_ENV)/ready ## docs/reference/rest, from docs/openapi.json and the answers of a gateway
	HIMALIA_BIN=$(TEST_HIMALIA) $(TEST_ENV)/bin/python tests/rest/run.py --write
	tests/rest/pages.py --write

.PHONY: e2b-table
e2b-table: test-programs $(TEST_ENV)/ready ## the table of methods in docs/how-to/e2b.md, from running them
	HIMALIA_BIN=$(TEST_HIMALIA) HIMALIA_WRITE_E2B=1 $(TEST_ENV)/bin/python -m pytest -q tests/python/e2e/test_e2b_methods.py

E2B_ENV := $(TARGET)/e2b-env

$(E2B_ENV)/ready: tests/e2b/requirements.txt
	python3 -m venv --clear $(E2B_ENV)
	$(E2B_ENV)/bin/pip install --quiet --requirement tests/e2b/requirements.txt
	touch $@

# The suites in JavaScript find their packages in the directory above them.
E2B_PACKAGES := $(TARGET)/e2b-suites/node_modules/.package-lock.json

$(E2B_PACKAGES): tests/e2b/package.json | node
	mkdir -p $(TARGET)/e2b-suites && cp tests/e2b/package.json $(TARGET)/e2b-suites/
	cd $(TARGET)/e2b-suites && npm install --ignore-scripts --silent --no-audit --no-fund
	touch $@

# WRITE=1 adds the tests that pass to the lists in tests/e2b/passing; SUITES names some of the suites.
.PHONY: test-e2b
test-e2b: test-programs $(TEST_ENV)/ready $(E2B_ENV)/ready $(E2B_PACKAGES) ## the tests of E2B's own clients, unmodified, at the level namespaces
	HIMALIA_BIN=$(TEST_HIMALIA) $(TEST_ENV)/bin/python tests/e2b/run.py $(SUITES) $(if $(WRITE),--write)

JUPYTER_SERVER_ENV := $(TARGET)/jupyter-server-env

$(JUPYTER_SERVER_ENV)/ready: tests/jupyter-server/requirements.txt
	python3 -m venv --clear $(JUPYTER_SERVER_ENV)
	$(JUPYTER_SERVER_ENV)/bin/pip install --quiet --requirement tests/jupyter-server/requirements.txt
	touch $@

.PHONY: test-jupyter-server
test-jupyter-server: test-programs $(TEST_ENV)/ready $(JUPYTER_SERVER_ENV)/ready ## jupyter_server's own tests of kernels, kernelspecs and sessions, unmodified; WRITE=1 adds tests that pass and writes the page
	HIMALIA_BIN=$(TEST_HIMALIA) $(TEST_ENV)/bin/python tests/jupyter-server/run.py $(if $(WRITE),--write)

.PHONY: test-openapi
test-openapi: $(PYTEST_NEEDS) ## EXAMPLES (1000) requests made from docs/openapi.json for each operation, and as many chains of requests; long
	HIMALIA_OPENAPI_EXAMPLES=$(or $(EXAMPLES),1000) $(PYTEST) -n $(PYTEST_WORKERS) --timeout 0 tests/python/e2e/test_openapi.py

WORKS_WITH := $(TARGET)/works-with
WORKS_WITH_ENVS := $(patsubst tests/works-with/requirements-%.txt,$(WORKS_WITH)/%/ready,$(wildcard tests/works-with/requirements-*.txt))

$(WORKS_WITH)/%/ready: tests/works-with/requirements-%.txt
	python3 -m venv --clear $(WORKS_WITH)/$*
	$(WORKS_WITH)/$*/bin/pip install --quiet --requirement $<
	touch $@

$(WORKS_WITH)/js/ready: tests/works-with/js/package-lock.json | node
	mkdir -p $(WORKS_WITH)/js
	cp tests/works-with/js/package*.json $(WORKS_WITH)/js
	cd $(WORKS_WITH)/js && npm ci --ignore-scripts --silent --no-audit --no-fund
	touch $@

.PHONY: test-works-with
test-works-with: test-programs $(TEST_ENV)/ready $(WORKS_WITH_ENVS) $(WORKS_WITH)/js/ready ## programs of other projects, once each; their packages take 1.6 GB; WRITE=1 writes the page, WORKS names some
	HIMALIA_BIN=$(TEST_HIMALIA) $(TEST_ENV)/bin/python tests/works-with/run.py $(WORKS) $(if $(WRITE),--write)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_SECONDS (60) each; needs cargo-fuzz and a nightly toolchain
	for target in $$(cd crates/wire && cargo +nightly fuzz list); do \
	  (cd crates/wire && cargo +nightly fuzz run $$target -- -max_total_time=$${FUZZ_SECONDS:-60}); done

.PHONY: prerequisites prerequisites-test prerequisites-cgroup2 prerequisites-kubernetes prerequisites-arm64 ensure-build ensure-test check-rust check-rust-tests check-build check-test check-cgroup2 check-kubernetes check-arm64
prerequisites: ## installs what `build` and the demos need (Debian, as root; asks first, or YES=1)
	@tests/prerequisites.sh install build
prerequisites-test: ## installs what `test` needs besides: Chromium, Postgres, a Docker engine
	@tests/prerequisites.sh install test
prerequisites-cgroup2: ## installs what `test-cgroup2` needs besides: a virtual machine
	@tests/prerequisites.sh install cgroup2
prerequisites-kubernetes: ## installs what `test-kubernetes` needs besides: what builds and starts a cluster
	@tests/prerequisites.sh install kubernetes
prerequisites-arm64: ## installs what `test-arm64` needs besides: an emulator, Rust's libraries for 64-bit ARM with YES=1
	@tests/prerequisites.sh install arm64
ensure-build:
	@tests/prerequisites.sh ensure build
ensure-test:
	@tests/prerequisites.sh ensure test
check-rust:
	@tests/prerequisites.sh check rust
# The tests in Rust start a database server.
check-rust-tests:
	@tests/prerequisites.sh check rust-tests
check-build:
	@tests/prerequisites.sh check build
check-test:
	@tests/prerequisites.sh check test
check-cgroup2:
	@tests/prerequisites.sh check cgroup2
check-kubernetes:
	@tests/prerequisites.sh check kubernetes
check-arm64:
	@tests/prerequisites.sh check arm64

.PHONY: node nextest
node:
	@web/node.sh $(TOOLS)/node
nextest: check-rust
	cargo nextest --version 2>/dev/null | grep -q ' $(NEXTEST) ' || \
	  $(INSTALL) --no-default-features --features default-no-update cargo-nextest@$(NEXTEST)

$(TOOLS)/bin/mdbook: | check-rust
	$(INSTALL) mdbook@$(MDBOOK)

$(TOOLS)/bin/cargo-deny: | check-rust
	$(INSTALL) cargo-deny@$(CARGO_DENY)

$(TOOLS)/bin/cargo-cyclonedx: | check-rust
	$(INSTALL) cargo-cyclonedx@$(CARGO_CYCLONEDX)

$(TOOLS)/bin/cargo-machete: | check-rust
	$(INSTALL) cargo-machete@$(CARGO_MACHETE)

# A server that speaks S3, for tests and demonstrations.
.PHONY: s3
s3: $(TOOLS)/bin/s3s-fs
$(TOOLS)/bin/s3s-fs: | check-rust
	$(INSTALL) s3s-fs@$(S3S_FS) --features binary

# The same for benchmarks, which must not measure a build without optimisation.
$(S3_OPTIMISED): | check-rust
	cargo install --quiet --locked --root $(TARGET)/tools-optimised --target-dir $(TARGET)/tools-build s3s-fs@$(S3S_FS) --features binary

$(TEST_ENV)/ready: tests/requirements.lock
	rm -rf $(TEST_ENV) && python3 -m venv $(TEST_ENV)
	$(TEST_ENV)/bin/pip install --quiet --require-hashes -r tests/requirements.lock
	touch $@

$(AGENTS_ENV)/ready: tests/agents/requirements.lock
	rm -rf $(AGENTS_ENV) && python3 -m venv $(AGENTS_ENV)
	$(AGENTS_ENV)/bin/pip install --quiet --require-hashes -r tests/agents/requirements.lock
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

$(CHART_ENV)/ready: tests/chart/requirements.lock
	rm -rf $(CHART_ENV) && python3 -m venv $(CHART_ENV)
	$(CHART_ENV)/bin/pip install --quiet --require-hashes -r tests/chart/requirements.lock
	touch $@

$(BENCH_ENV)/ready: tests/bench/requirements.lock
	rm -rf $(BENCH_ENV) && python3 -m venv $(BENCH_ENV)
	$(BENCH_ENV)/bin/pip install --quiet --require-hashes -r tests/bench/requirements.lock
	touch $@

# What is installed is what the lock files have, and no package runs a program at that.
%/node_modules/.package-lock.json: %/package-lock.json | node
	cd $* && npm ci --ignore-scripts --silent --no-audit --no-fund
	touch $@

.PHONY: clean
clean: ## remove everything that was built here
	cargo clean
	rm -rf tests/js/node_modules tests/out web/node_modules clients/javascript/node_modules clients/javascript/dist
	find web/dist -mindepth 1 ! -name .gitkeep -delete
