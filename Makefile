# make demo      compare learners on two streams: tables, and a report to open in a browser
# make test      run the whole test suite
# make attack    run 20000 random sequences of calls against all models (ATTACK_ARGS="500 --seed 7" runs others), and
#                every change of a single field of every state
# make quick     run a selection of the tests (pytest -m quick) in less than a minute
# make lint      run ruff, import-linter, mypy, codespell, zizmor, the check of the compiled core's stubs, and make docs
# make coverage  run the test suite, measure which lines of Python it runs, and write coverage-html/
# make wheel     build a wheel in dist/ and run tests/smoke.py with it in a new environment without a compiler
# make test-lowest, make test-newest   run the test suite with the oldest dependencies that pyproject.toml allows, or
#                with pre-releases
# make sanitize  run the tests with a core that checks memory accesses and arithmetic; needs gcc with its sanitizers
# make bench     run the benchmarks and write docs/performance.md; BENCH_ARGS=--quick runs fewer and leaves the page
# make docs      build the documentation site from docs/ and the docstrings in site/, and check its links
# make clean     remove .venv and the site
#
# Each target creates .venv if needed, builds and installs what has changed, and then runs.

PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

UV = VIRTUAL_ENV=.venv/versions $(BIN)/uv pip
SOURCES := $(shell find src -type f -not -name '*.pyc') meson.build pyproject.toml

.PHONY: demo test attack quick sanitize lint coverage wheel test-lowest test-newest bench docs clean

demo: .venv/installed
	$(BIN)/budgetron compare data:digits data:two-gaussians --budget 50 --report demo.html

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

ATTACK_ARGS ?= 20000 --processes 2
attack: .venv/installed
	$(BIN)/python tests/attack/run.py $(ATTACK_ARGS)
	$(BIN)/python tests/attack/hostile_states.py --processes 2

quick: .venv/installed
	$(BIN)/python -m pytest -m quick $(PYTEST_ARGS)

# The interpreter is not built with sanitizers, so their run-time libraries must be loaded before it, and the C++
# library for modules that throw exceptions. Leak detection is off, because the interpreter frees some memory only by
# exiting. Excluded are the tests that count instructions or measure times, those that build modules or the library
# (without sanitizers), the one that starts a browser, and those of the service, which has no compiled code.
UNMEASURED := test_instructions.py test_benchmarks.py test_docs.py test_sabotage.py \
    test_broken_rules.py
BROWSER := tests/test_report.py::test_a_browser_shows_the_page
SERVICE := tests/serve
RUNTIME = $(foreach name,asan ubsan stdc++,$(shell gcc -print-file-name=lib$(name).so))
sanitize: .venv/sanitize/installed
	PYTHONPATH=$(CURDIR)/.venv/sanitize LD_PRELOAD="$(RUNTIME)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(BIN)/python -m pytest $(UNMEASURED:%=--ignore=tests/%) --ignore=$(SERVICE) --deselect $(BROWSER) $(PYTEST_ARGS)

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --ignore-missing-stub --ignore-disjoint-bases \
	    --mypy-config-file pyproject.toml budgetron._core
	$(BIN)/codespell *.md docs src tests benchmarks examples tools
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/hadolint packaging/docker/Dockerfile
	$(MAKE) docs

coverage: .venv/installed
	$(BIN)/pip install --quiet --group coverage
	rm -f .coverage*
	$(BIN)/coverage run -m pytest -n auto --dist worksteal $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet --directory coverage-html
	$(BIN)/coverage report | tail -n 1

# The wheel contains the build of .venv, linked for this machine's C library. The wheels of a release are built by
# cibuildwheel, for older ones too (.github/workflows/wheels.yml). The test environment has no compiler: PATH contains
# only its own folder.
wheel: .venv/installed
	rm -rf .venv/wheel
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps -Cbuild-dir=.venv/build --wheel-dir dist .
	$(PYTHON) -m venv .venv/wheel
	.venv/wheel/bin/pip install --quiet --only-binary :all: dist/budgetron-*.whl
	cd .venv/wheel && PATH=$(CURDIR)/.venv/wheel/bin bin/python $(CURDIR)/tests/smoke.py

# uv resolves to the lowest versions; pip cannot. They are those of the library and its extras. The test tools are the
# newest that accept them. Deprecation warnings of old versions are not errors.
test-lowest: RESOLUTION := --resolution lowest-direct
test-lowest: WARNINGS := -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning
test-newest: RESOLUTION := --prerelease allow
test-lowest test-newest: .venv/installed
	rm -rf .venv/versions dist/versions
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps -Cbuild-dir=.venv/build --wheel-dir dist/versions .
	$(BIN)/pip install --quiet uv
	$(PYTHON) -m venv .venv/versions
	$(UV) install $(RESOLUTION) --requirements pyproject.toml --all-extras
	$(UV) freeze > .venv/versions/constraints.txt
	$(UV) install --constraints .venv/versions/constraints.txt --group test
	$(UV) install --no-deps dist/versions/*.whl
	$(UV) list
	.venv/versions/bin/python -m pytest -n auto --dist worksteal $(WARNINGS) $(PYTEST_ARGS)

bench: .venv/installed .venv/bench-tools
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

# Warnings are errors. The first line removes the cache, which hides warnings of earlier builds.
docs: .venv/tools
	rm -rf site .cache
	$(BIN)/zensical build --strict
	$(BIN)/python tests/check_site.py site

clean:
	rm -rf .venv .cache coverage-html dist site

.venv/tools: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --group dev "scikit-learn>=1.6"
	touch $@

.venv/bench-tools: .venv/tools
	$(BIN)/pip install --quiet --group bench
	touch $@

.venv/spark-tools: .venv/tools
	$(BIN)/pip install --quiet --group spark
	touch $@

# The build folder is kept, so that only changed files are compiled again.
.venv/installed: .venv/tools $(SOURCES)
	$(BIN)/pip install --quiet --no-build-isolation --no-deps --force-reinstall -Cbuild-dir=.venv/build .
	touch $@

.venv/sanitize/installed: .venv/tools $(SOURCES)
	CC=gcc $(BIN)/pip install --quiet --no-build-isolation --no-deps --upgrade --target .venv/sanitize \
	    -Cbuild-dir=.venv/sanitize-build -Csetup-args=-Db_sanitize=address,undefined \
	    -Csetup-args=-Db_lundef=false -Csetup-args=-Doptimization=1 -Csetup-args=-Ddebug=true .
	touch $@
