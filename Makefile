# Two targets do everything on a bare Debian 12: `make demo` and `make test`.
# The rest is for developers: see CONTRIBUTING.md.
JOBS ?= $(shell nproc)
PRESET ?= release

.PHONY: demo test sim sim-hashes crash-points mutants build packages packages-dev format lint bench \
  test-asan test-tsan fuzz help

help:
	@sed -n 's/^## //p' Makefile

## demo       install what is missing, build, start a cluster, save, load, break it, repair reads
demo: build
	tests/e2e/demo.sh build/release

## test       install, build, run all tests
test: build-all
	ctest --test-dir build/$(PRESET) --output-on-failure -j $(JOBS)

## build      the programs cairn and cairnd, in build/release
build: packages
	cmake --preset $(PRESET)
	cmake --build build/$(PRESET) --parallel $(JOBS) --target cairn cairnd make_llama_safetensors

build-all: packages
	cmake --preset $(PRESET)
	cmake --build build/$(PRESET) --parallel $(JOBS)

packages:
	tools/install_packages.sh

packages-dev:
	tools/install_packages.sh packages.txt packages_dev.txt

# Without optimisation gcc makes a call of each resumption, where release builds
# jump: long chains of ready coroutines need a deep stack.
DEEP_STACK = ulimit -s 131072 2>/dev/null || ulimit -s $$(ulimit -H -s);

## test-asan  the unit tests under AddressSanitizer and UBSan
test-asan: packages
	cmake --preset asan
	cmake --build build/asan --parallel $(JOBS)
	$(DEEP_STACK) ctest --test-dir build/asan --output-on-failure -j $(JOBS) -L unit

## test-tsan  the unit tests under ThreadSanitizer
test-tsan: packages
	cmake --preset tsan
	cmake --build build/tsan --parallel $(JOBS)
	export TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp; \
	$(DEEP_STACK) ctest --test-dir build/tsan --output-on-failure -j $(JOBS) -L unit

## sim        whole clusters in the simulator: SEEDS seeds (default 1000), or only SEED
SEEDS ?= 1000
sim: packages
	cmake --preset release
	cmake --build build/release --parallel $(JOBS) --target sim_campaign
	build/release/tests/sim_campaign $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --jobs $(JOBS))

## sim-hashes the same seeds built by gcc and clang, release and debug: one trace each
HASH_PRESETS = release clang-release debug
sim-hashes: packages-dev
	for preset in $(HASH_PRESETS); do \
	  cmake --preset $$preset && \
	  cmake --build build/$$preset --parallel $(JOBS) --target sim_campaign || exit 1; \
	done
	$(DEEP_STACK) python3 tests/sim/compare_hashes.py --jobs $(JOBS) --seeds $(if $(filter command line,$(origin SEEDS)),$(SEEDS),50) \
	  $(foreach preset,$(HASH_PRESETS),build/$(preset)/tests/sim_campaign)

## crash-points  every crash after every I/O operation of a save, an edit, a delete, a start
crash-points: packages
	cmake --preset release
	cmake --build build/release --parallel $(JOBS) --target crash_points_test
	tests/sim/crash_points/run_all.sh build/release/tests/crash_points_test $(JOBS)

## mutants    breaks one safety rule at a time (MUTANTS="a b": only these): the simulator must notice each
mutants: packages
	python3 tests/mutants/run.py --jobs $(JOBS) $(MUTANTS)

## bench      figures, each as a ratio to its baseline in the same run
bench: build-all
	bench/run.sh build/$(PRESET)

## fuzz       every fuzz target for FUZZ_SECONDS (default 60) each, with libFuzzer
fuzz: packages-dev
	cmake --preset fuzz
	cmake --build build/fuzz --parallel $(JOBS) --target fuzzers
	tests/fuzz/run.sh build/fuzz $(or $(FUZZ_SECONDS),60)

## format     clang-format over the tree
format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i

## lint       clang-tidy and the tidy test
lint: packages-dev
	cmake --preset lint
	cmake --build build/lint --parallel $(JOBS) --target cairn_wire header_selfcheck header_selfcheck_others
	git ls-files 'format/*.cc' 'io/*.cc' 'server/*.cc' 'client/*.cc' | xargs -P $(JOBS) -n 4 clang-tidy -quiet -p build/lint
	python3 tests/tidy/tidy.py
