# Thin front of Meson: `make help` tells what there is.
.DEFAULT_GOAL := all
.PHONY: all help deps build test lint demo fuzz bench numerics torture export-check bench-check format wheel test-frameworks \
        traces install clean

all: build ## build build/stoker and libstoker.so

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

deps: ## install what a build needs and is missing (apt-get)
	@scripts/deps.sh build

build: ## build only; needs what `make deps` installs
	@scripts/configure.sh build
	@ninja -C build

test: ## all tests, also with sanitizers; installs what is missing, 2.3 GB of Python packages
	@scripts/deps.sh build test wheel package
	@scripts/test.sh

lint: ## the checks that need no build
	@scripts/lint.sh

demo: ## install what is missing, build, make sample data, run the main job on it and show the result
	@scripts/deps.sh build demo
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh

fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	@scripts/deps.sh build fuzz
	@scripts/fuzz.sh $(TARGETS)

torture: ## the long tests: every writer under every fault, every allocation that fails (minutes)
	@scripts/deps.sh build test
	@$(MAKE) --no-print-directory build
	@scripts/torture.sh

bench: ## measure, and print the table of docs/performance.md
	@scripts/deps.sh build bench
	@$(MAKE) --no-print-directory build
	@bench/run.sh

numerics: ## compare images with Pillow, torchvision and TensorFlow, and print what differs
	@scripts/deps.sh build test
	@$(MAKE) --no-print-directory build
	@scripts/numerics.sh

export-check: build ## load what `stoker export` writes into Spark and ClickHouse (chDB), and compare
	@scripts/export_check.sh

bench-check: build ## give results of `stoker bench` to Apache Otava and benchstat
	@scripts/bench_check.sh

format: ## clang-format over all C files
	@scripts/deps.sh format
	@find include src libexec cli python examples tests bench -name '*.[ch]' -print0 | xargs -0 clang-format -i

wheel: ## the Python package for every CPython from 3.10 on: dist/*.whl
	@scripts/deps.sh wheel
	@scripts/wheel.sh

test-frameworks: ## the Python package with PyTorch, TensorFlow, Lightning, Hugging Face, timm, Keras (large downloads)
	@scripts/deps.sh wheel
	@scripts/test_frameworks.sh

traces: ## record the labelled profiles of tests/data/verdicts anew (large downloads, a quiet machine)
	@scripts/make_traces.sh

install: build ## install to the prefix of the build directory
	@meson install -C build

clean: ## remove all build directories
	rm -rf build build-asan build-tsan build-fuzz build-wheel dist
