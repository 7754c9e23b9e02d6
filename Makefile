# Everything here sets up its own environment in .venv; Python 3.11 or newer and make are enough.
#
#   make demo     train, compile, tune and reuse on real handwritten digits
#   make test     the whole test suite
#   make onnx     all backend tests of the onnx package, of which make test runs a sample
#   make floors   compile, tune and reuse with the lowest versions of all dependencies
#   make bench    side by side with NumPy and whatever other compilers are installed
#   make lint     ruff: format and rules
#   make types    pyright over the whole package
#   make format   rewrite the sources as lint wants
#   make docs     rewrite the texts in docs/architecture.md that the program prints
#   make site     build the pages into build/site
#   make clean    remove what these made

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST_ARGS ?=
# The packages that stand at the root and are imported as loopwright.<name>.
PARTS := tracer ir autotune codegen tuning_logs

# $(call links,folder): the package as it is imported, in a folder.
links = rm -rf $(1) && mkdir -p $(1) && cp -rs $(CURDIR)/loopwright $(1)/ && \
	cp -rs $(addprefix $(CURDIR)/,$(PARTS)) $(1)/loopwright/

.PHONY: help demo test onnx floors bench bytecode types docs site lint format clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#  *make /make /p' Makefile

demo: $(VENV)/.demo
	$(BIN)/python -m examples.demo

test: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python -m pytest $(PYTEST_ARGS)

onnx: $(VENV)/.dev
	$(BIN)/python tests/helpers/onnx_backend.py

# In an environment of its own, made again when the dependencies change. The package is a folder of
# links there: installing it would take as long as all the rest.
floors: $(VENV)-floors/.done
	$(call links,build/floors)
	PYTHONPATH=build/floors $(VENV)-floors/bin/python .ci/dependencies.py run

$(VENV)-floors/.done: pyproject.toml .ci/dependencies.py | $(BIN)/python
	rm -rf $(VENV)-floors && $(PYTHON) -m venv $(VENV)-floors
	$(VENV)-floors/bin/python .ci/dependencies.py lowest > $(VENV)-floors/lowest.txt
	$(VENV)-floors/bin/python -m pip --disable-pip-version-check install --quiet \
	  --no-compile --only-binary :all: --requirement $(VENV)-floors/lowest.txt
	@touch $@

# Each worker of the tests would compile all sources for itself.
bytecode: $(VENV)/.dev $(VENV)/.torch
	@mkdir -p build
	$(BIN)/python -m pytest --collect-only > build/tests.txt || { cat build/tests.txt; exit 1; }

bench: $(VENV)/.bench
	$(BIN)/python -m bench.run $(BENCH_ARGS)

# The checker wants the packages where they are imported: a folder of links in that shape.
types: $(VENV)/.dev
	$(call links,build/types)
	ln -s $(CURDIR)/.ci/pyrightconfig.json build/types/
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/python -m pyright \
	  --pythonpath $(BIN)/python -p build/types

docs: $(VENV)/.dev
	$(BIN)/python -m pytest tests/repo/test_docs.py --update-golden

# A dead link is an error (mkdocs.yml). Nothing comes from the network but mkdocs itself, once.
site: $(VENV)/.docs
	$(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

lint: $(VENV)/.dev
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .

format: $(VENV)/.dev
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

clean:
	rm -rf $(VENV) $(VENV)-floors build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
	  echo "No Python >= 3.11 with venv was found (on Debian and Ubuntu: apt-get install" \
	       "python3 python3-venv). Or name one: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Each peer on its own, since one that cannot be installed is only missing. PyTorch has its wheels
# without GPU code in a place of its own.
TORCH_CPU := https://download.pytorch.org/whl/cpu
$(VENV)/.bench: $(VENV)/.demo
	@$(BIN)/python -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["bench"], \
	        sep="\n")' \
	  | while read -r peer; do \
	    case $$peer in torch*) index="--extra-index-url $(TORCH_CPU)";; *) index=;; esac; \
	    $(PIP) install --quiet --retries 1 $$index "$$peer" || echo "without $$peer"; \
	  done
	@touch $@

# The extra torch, for its tests; without it they are left out, and CI fails. The default index may
# have a wheel without GPU code for this platform, too.
TORCH := torch>=2.6
$(VENV)/.torch: pyproject.toml .ci/torch_for_cpu.py $(VENV)/.dev
	timeout 300 $(PIP) install --quiet --timeout 10 --retries 0 --only-binary :all: \
	  --index-url $(TORCH_CPU) "$(TORCH)" || { \
	  found=$$($(BIN)/python .ci/torch_for_cpu.py "$(TORCH)") && \
	  timeout 600 $(PIP) install --quiet --only-binary :all: "$$found"; } || echo "without torch"
	@touch $@

# One stamp per set of extras: it is older than pyproject.toml when the dependencies have changed.
# The package comes without its dependencies, since pip would take xgboost with its GPU code.
$(VENV)/.%: pyproject.toml .ci/dependencies.py | $(BIN)/python
	$(BIN)/python .ci/dependencies.py with $* > $(VENV)/$*.txt
	$(PIP) install --quiet --requirement $(VENV)/$*.txt
	$(PIP) install --quiet --no-deps --editable .
	@touch $@
