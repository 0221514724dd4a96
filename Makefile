# The commands of the house. `make` alone prints them.

CARGO ?= cargo
# Where cargo builds to.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# The test build: near release speed, debug assertions and overflow checks on (Cargo.toml).
TEST_OPTIONS := --locked --profile checked
# Arguments of `regrow bench`, as in: make bench ARGS="--runs 500 -- git --version"
ARGS ?=
# Seconds that each fuzz target runs in `make test`.
FUZZ_SECONDS ?= 5
# Builds the regrow command. It is linked statically: a client that the loader has to link first starts too slowly.
BUILD_COMMAND = $(CARGO) rustc --quiet --release --locked --package regrow-cli --bin regrow -- \
	-C target-feature=+crt-static -C relocation-model=static
# Where tests/victims/build.sh puts the victims.
VICTIMS := $(abspath tests/victims/build)
# Where the tests write how much of them was recycled.
SUMMARY := $(TARGET)/test-summary

# The workspaces apart from the main one: the agent, and the fuzz targets as soon as there is one.
APART := $(patsubst %/Cargo.toml,%,$(wildcard agent/Cargo.toml)) $(if $(wildcard fuzz/fuzz_targets/*.rs),fuzz)
# Does the same in each of them: $(call apart,command), in which $$each is the folder.
apart = @set -e; for each in $(APART); do $(1); done

START := $(shell date +%s)
# Prints what comes next, and the seconds since make was started.
say = @printf '== %s  [%s s]\n' '$(1)' "$$(($$(date +%s) - $(START)))"

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo bench bench-daemon bench-pool bench-python bench-web build test lint fmt deps fmt-check clippy doc deny scripts tidy fuzz-smoke victims \
	test-workspace test-unprivileged test-python test-web clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26

demo: ## build, then compare Regrow with posix_spawn on real programs
	@scripts/install-deps demo
	$(call say,release build)
	@$(BUILD_COMMAND)
	$(call say,regrow bench)
	@$(TARGET)/release/regrow bench $(ARGS)

bench: demo ## the same; ARGS="--runs 500 -- git --version" are arguments of regrow bench

build: ## build the regrow command: target/release/regrow
	@$(BUILD_COMMAND)

bench-daemon: build ## what the daemon costs its clients; the figures go to target/bench/daemon.json
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --daemon --json $(TARGET)/bench/daemon.json $(ARGS)

bench-pool: build ## the pool's policies on the recorded traces; the figures go to target/bench/pool.json
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --pool traces --json $(TARGET)/bench/pool.json $(ARGS)

bench-python: build ## fresh Python processes beside what people use for them; the figures go to target/bench/python.json
	@mkdir -p $(TARGET)/bench
	@CARGO_TARGET_DIR=$(TARGET) python/bench.sh $(TARGET)/bench/python.json

bench-web: build ## pages by fresh processes beside what people use for them; the figures go to target/bench/web.json
	@mkdir -p $(TARGET)/bench
	@CARGO_TARGET_DIR=$(TARGET) tests/web/bench/bench.sh $(TARGET)/bench

test: deps lint fuzz-smoke victims test-workspace test-unprivileged test-python test-web ## everything that CI runs
	$(call say,all passed)
	@cat $(SUMMARY)

lint: deps fmt-check clippy doc deny scripts tidy ## all checks that run no code of the project

fmt: ## format all Rust code
	@$(CARGO) fmt --all
	$(call apart,$(CARGO) fmt --manifest-path $$each/Cargo.toml)

deps: ## install what the tests need, or say what is missing
	@scripts/install-deps test

fmt-check: ## is all Rust code formatted
	$(call say,rustfmt)
	@$(CARGO) fmt --all --check
	$(call apart,$(CARGO) fmt --manifest-path $$each/Cargo.toml --check)

clippy: ## lint all Rust code, warnings are errors
	$(call say,clippy)
	@$(CARGO) clippy --quiet --workspace --all-targets --locked -- -D warnings
	$(call apart,$(CARGO) clippy --quiet --manifest-path $$each/Cargo.toml --target-dir $(TARGET)/$$each \
		--locked -- -D warnings)

doc: ## build the API documentation, broken links are errors
	$(call say,rustdoc)
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps --document-private-items --locked

deny: ## check licences and origin of all dependencies
	$(call say,cargo-deny)
	@scripts/cargo-deny Cargo.toml $(APART:%=%/Cargo.toml)

scripts: ## lint the shell scripts, and Python if there is any
	$(call say,shellcheck)
	@scripts/lint-scripts

tidy: ## check the rules of the house that no other tool knows
	$(call say,tidy)
	@$(CARGO) xtask tidy

fuzz-smoke: ## run each fuzz target for FUZZ_SECONDS
	$(call say,fuzz targets)
	@scripts/fuzz-smoke $(FUZZ_SECONDS)

victims: ## build the programs that check from inside that they were given a fresh world
	$(call say,victims)
	@[ ! -e tests/victims/build.sh ] || tests/victims/build.sh $(VICTIMS)

test-workspace: victims ## run the tests of the workspace
	$(call say,tests)
	@rm -f $(SUMMARY)
	@REGROW_SUMMARY=$(SUMMARY) $(CARGO) test --workspace $(TEST_OPTIONS)

test-unprivileged: victims ## run the same tests as user nobody (needs root)
	$(call say,tests as an unprivileged user)
	@REGROW_SUMMARY=$(SUMMARY) scripts/test-unprivileged $(TEST_OPTIONS)

test-python: ## check, build and test the Python package, in an environment of its own
	$(call say,the Python package)
	@CARGO_TARGET_DIR=$(TARGET) python/check.sh

test-web: build ## compare the web gateway with Apache and nginx, misuse it, and put load on it
	$(call say,the web gateway)
	@CARGO_TARGET_DIR=$(TARGET) tests/web/check.sh

clean: ## remove what was built
	@$(CARGO) clean
	@rm -rf $(VICTIMS)
