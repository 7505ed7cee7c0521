# Thin front of Meson: `make help` tells what there is.
.DEFAULT_GOAL := all
.PHONY: all help deps build test lint demo fuzz bench numerics export-check bench-check format wheel test-frameworks \
        install clean

all: build ## build build/stoker and libstoker.so

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

deps: ## install what is missing (apt-get)
	@scripts/deps.sh

build: ## build only; needs what `make deps` installs
	@scripts/configure.sh build
	@ninja -C build

test: deps ## all tests, also with sanitizers
	@scripts/test.sh

lint: ## the checks that need no build
	@scripts/lint.sh

demo: deps build ## make sample data, run the main job on it and show the result
	@scripts/demo.sh

fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	@scripts/deps.sh fuzz
	@scripts/fuzz.sh $(TARGETS)

bench: deps build ## measure, and print the table of docs/performance.md
	@bench/run.sh

numerics: deps build ## compare images with Pillow, torchvision and TensorFlow, and print what differs
	@scripts/numerics.sh

export-check: build ## load what `stoker export` writes into Spark and ClickHouse (chDB), and compare
	@scripts/export_check.sh

bench-check: build ## give results of `stoker bench` to Apache Otava and benchstat
	@scripts/bench_check.sh

format: ## clang-format over all C files
	@scripts/deps.sh format
	@find include src libexec cli python examples tests bench -name '*.[ch]' -print0 | xargs -0 clang-format -i

wheel: deps ## the Python package for every CPython from 3.10 on: dist/*.whl
	@scripts/wheel.sh

test-frameworks: deps ## the Python package with PyTorch, TensorFlow, Lightning, Hugging Face, timm, Keras (large downloads)
	@scripts/test_frameworks.sh

install: build ## install to the prefix of the build directory
	@meson install -C build

clean: ## remove all build directories
	rm -rf build build-asan build-tsan build-fuzz build-wheel dist
