# The commands of the house. `make` alone prints them.

CARGO ?= cargo
# Where cargo builds to.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# How everything but the released command is built: near release speed, debug assertions and overflow checks on (Cargo.toml). One
# profile for all of it, so that nothing is built twice.
CHECKED := --locked --profile checked
# Which parts `make test` and `make soak` run, by texts in their names; all of them without one.
PARTS ?=
# Arguments of `regrow bench`, as in: make bench ARGS="--runs 500 -- git --version"
ARGS ?=
# Seconds that each fuzz target runs.
FUZZ_SECONDS ?= 4
# Builds the regrow command. It is linked statically: a client that the loader has to link first starts too slowly.
BUILD_COMMAND = $(CARGO) rustc --quiet --release --locked --package regrow-cli --bin regrow -- \
	-C target-feature=+crt-static -C relocation-model=static
# Has rustdoc take the crates as `make clippy` has checked them, where that was made: nothing is checked twice then.
AS_CLIPPY = CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ \
	RUSTC_WORKSPACE_WRAPPER="$$(ls "$$(rustc --print sysroot)/bin/clippy-driver" 2>/dev/null)"
# Where tests/victims/build.sh puts the victims, and tests/hostile/build.sh the attacks.
VICTIMS := $(abspath tests/victims/build)
ATTACKS := $(abspath tests/hostile/build)

# The workspaces apart from the main one: the agent, the client, and the fuzz targets as soon as there is one.
APART := $(patsubst %/Cargo.toml,%,$(wildcard agent/Cargo.toml client/Cargo.toml client/builtin/Cargo.toml client/sites/Cargo.toml)) $(if $(wildcard fuzz/fuzz_targets/*.rs),fuzz)
# Does the same in each of them: $(call apart,command), in which $$each is the folder.
apart = @set -e; for each in $(APART); do $(1); done

START := $(shell date +%s)
# Prints what comes next, and the seconds since make was started.
say = @printf '== %s  [%s s]\n' '$(1)' "$$(($$(date +%s) - $(START)))"

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo bench bench-daemon bench-resources bench-memory bench-trace bench-pool bench-sites bench-ladder bench-python bench-env bench-web keep-results results build memory \
	wheel test soak lint fmt deps fmt-check clippy doc deny scripts tidy fuzz-smoke loom loom-mutants sanitize miri miri-zones miri-fiber victims test-workspace test-unprivileged test-python \
	test-web clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26

demo: ## build, then compare Regrow with posix_spawn on real programs
	@scripts/install-deps demo
	$(call say,release build)
	@$(BUILD_COMMAND)
	$(call say,regrow bench)
	@$(TARGET)/release/regrow bench $(ARGS)

bench: build ## the same, the figures to target/bench/programs.json; ARGS="--runs 500 -- git --version" are arguments of regrow bench
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --json $(TARGET)/bench/programs.json $(ARGS)

build: ## build the regrow command: target/release/regrow
	@$(BUILD_COMMAND)

memory: ## build the memory service for C programs: libregrow_memory.so, libregrow_memory.a and regrow_memory.h in target/release/memory
	@$(CARGO) rustc --quiet --release --locked --package regrow-memory-c --lib --crate-type staticlib
	@$(CARGO) rustc --quiet --release --locked --package regrow-memory-preload --lib --crate-type cdylib
	@mkdir -p $(TARGET)/release/memory
	@cp $(TARGET)/release/libregrow_memory_preload.so $(TARGET)/release/memory/libregrow_memory.so
	@cp $(TARGET)/release/libregrow_memory_c.a $(TARGET)/release/memory/libregrow_memory.a
	@cp crates/regrow-memory-c/include/regrow_memory.h $(TARGET)/release/memory/

wheel: ## build the wheel of the Python package for CPython 3.9 and later and glibc 2.17 and later: target/wheels
	@CARGO_TARGET_DIR=$(TARGET) python/wheel.sh $(TARGET)/wheels

bench-daemon: build ## what the daemon costs its clients; the figures go to target/bench/daemon.json
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --daemon --json $(TARGET)/bench/daemon.json $(ARGS)

bench-resources: build ## what each resource costs; the figures go to target/bench/resources.json
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --resources --json $(TARGET)/bench/resources.json $(ARGS)

bench-trace: build ## the web trace with real processes by each policy; the figures go to target/bench/trace.json
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow replay traces/web-1000.csv --real --json $(TARGET)/bench/trace.json $(ARGS)

bench-memory: build memory ## blocks of the memory service beside what the kernel maps; the figures go to target/bench/memory.json
	@scripts/install-deps bench-memory
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --memory --json $(TARGET)/bench/memory.json $(ARGS)

bench-ladder: build ## fibers, tasks and state machines beside what people use for them; the figures go to target/bench/ladder.json
	@scripts/install-deps bench-ladder
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --ladder --json $(TARGET)/bench/ladder.json

bench-sites: build ## what it costs to see where processes are created, and what is gained by it (root); the figures go to target/bench/sites.json
	@scripts/install-deps bench-sites
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --sites --json $(TARGET)/bench/sites.json

bench-pool: build ## the pool's policies on the recorded traces; the figures go to target/bench/pool.json
	@mkdir -p $(TARGET)/bench
	@$(TARGET)/release/regrow bench --pool traces --json $(TARGET)/bench/pool.json $(ARGS)

bench-python: build ## fresh Python processes beside what people use for them; the figures go to target/bench/python.json and celery.json
	@scripts/install-deps celery
	@mkdir -p $(TARGET)/bench
	@CARGO_TARGET_DIR=$(TARGET) bench/python/bench.sh $(TARGET)/bench/python.json

bench-env: build ## builds and shell tests below regrow env, beside the same without; the figures go to target/bench/env.json
	@mkdir -p $(TARGET)/bench
	@CARGO_TARGET_DIR=$(TARGET) bench/env/bench.sh $(TARGET)/bench/env.json

bench-web: build ## pages by fresh processes beside what people use for them; the figures go to target/bench/web.json and pages.json
	@mkdir -p $(TARGET)/bench
	@CARGO_TARGET_DIR=$(TARGET) bench/web/bench.sh $(TARGET)/bench

keep-results: ## put the figures in target/bench into bench/results, and write the tables and plots of them into the documents
	@$(CARGO) run --quiet --profile checked --locked --package regrow-bench --bin keep-results -- \
		$(TARGET)/bench bench/results docs/evaluation
	@CARGO_TARGET_DIR=$(TARGET) bench/web/bench.sh --draw bench/results/pages.json docs/evaluation
	@$(CARGO) xtask gen

results: ## run all benchmarks, and keep what they measured: about an hour on a machine that does nothing else
	@$(MAKE) --no-print-directory bench ARGS="--runs 500"
	@$(MAKE) --no-print-directory bench-daemon bench-resources bench-memory bench-trace bench-pool bench-sites bench-ladder bench-python bench-env bench-web
	@$(MAKE) --no-print-directory keep-results

test: deps ## everything that CI runs; PARTS="engine nobody/" runs the parts with these texts in their names
	@scripts/suite.py test $(PARTS)

soak: deps ## what takes long: load, kills, fuzzing, Miri, sanitizers, everything as nobody, what users get
	@scripts/suite.py soak $(PARTS)

lint: deps ## all checks that run no code of the project
	@scripts/suite.py lint

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
	@$(CARGO) clippy --quiet --workspace --all-targets $(CHECKED) -- -D warnings
	$(call apart,$(CARGO) clippy --quiet --manifest-path $$each/Cargo.toml --target-dir $(TARGET)/$$each \
		--locked --release -- -D warnings)

doc: ## build the API documentation, broken links are errors
	$(call say,rustdoc)
	@$(AS_CLIPPY) RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps --document-private-items $(CHECKED)

deny: ## check licences and origin of all dependencies
	$(call say,cargo-deny)
	@scripts/cargo-deny Cargo.toml $(APART:%=%/Cargo.toml)

scripts: ## lint the shell scripts, and Python if there is any
	$(call say,shellcheck)
	@scripts/lint-scripts

tidy: ## check the rules of the house that no other tool knows
	$(call say,tidy)
	@$(CARGO) run --quiet $(CHECKED) --package xtask -- tidy

loom: ## try each order of the atomic operations of the memory service, of fibers' workers and channels, and of the locks
	@RUSTFLAGS="--cfg loom" $(CARGO) test --quiet $(CHECKED) --target-dir $(TARGET)/loom --package regrow-memory --package regrow-fiber \
		--package regrow-sync --lib model

sanitize: ## run the tests of the memory service with the address and the thread sanitizer, which know of its pages
	@scripts/sanitize address thread

miri: ## run the tests of the memory service and of fibers by Miri, as far as they need no kernel, and switch no stack
	@scripts/sanitize miri

miri-zones: ## of these the zones alone
	@scripts/sanitize miri-zones

miri-fiber: ## of these the fibers alone
	@scripts/sanitize miri-fiber

loom-mutants: ## weaken the atomic operations of the memory service, of fibers and of locks one by one: a model fails each time
	@scripts/loom_mutants.py

fuzz-smoke: ## run each fuzz target for FUZZ_SECONDS
	$(call say,fuzz targets)
	@scripts/fuzz-smoke $(FUZZ_SECONDS)

victims: ## build the programs that check from inside that they were given a fresh world, and those that attack it
	$(call say,victims)
	@tests/victims/build.sh $(VICTIMS)
	@tests/hostile/build.sh $(ATTACKS)

test-workspace: deps ## run the tests of the workspace
	@scripts/suite.py test tests/

test-unprivileged: deps ## run those tests as nobody for which rights matter (needs root)
	@scripts/suite.py test nobody/

test-python: deps ## check, build and test the Python package, in an environment of its own
	@scripts/suite.py test python/

test-web: deps ## compare the web gateway with Apache and nginx, misuse it, and put load on it
	@scripts/suite.py test web/

clean: ## remove what was built
	@$(CARGO) clean
	@rm -rf $(VICTIMS) $(ATTACKS)
