# serve   make the environment, install, fetch a small model (93 MB) where there is none, and serve
# test    lint, then every test, on up to four processes
# lint    ruff, mypy and import-linter alone
# bench   all that is promised of the speed, beside mlx-lm and mlx_lm.server: a table, JSON and
#         plots in benchmarks/results (ARGS=--quick for a short form)
# clean   remove the environment
#
# ARGS are for the program (make serve ARGS="--port 8080"), PYTEST_ARGS for pytest. PYTHON names an
# interpreter of 3.11 or newer, EXTRA the library for MLX on Linux: cpu (the default), cuda13 or cuda12.

VENV := .venv
BIN := $(VENV)/bin
SYSTEM := $(shell uname -s)
# A Mac's mlx has everything in it.
EXTRA := $(if $(filter Linux,$(SYSTEM)),cpu)
PIP := $(BIN)/python -m pip --disable-pip-version-check

NEWEST_FIRST := python3.13 python3.12 python3.11 python3 python python3.14
PYTHON := $(shell for name in $(NEWEST_FIRST); do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& command -v $$name && break; done)

comma := ,
DEV_EXTRAS := $(if $(EXTRA),$(EXTRA)$(comma))dev
BENCH_EXTRAS := $(if $(EXTRA),$(EXTRA)$(comma))audio-parts,bench

# A stamp is as old as the install it stands for, and is named for its library.
INSTALLED := $(VENV)/installed-$(or $(EXTRA),mac)
INSTALLED_DEV := $(INSTALLED)-dev
INSTALLED_BENCH := $(INSTALLED)-bench

.PHONY: serve test lint bench install install-dev clean
.DEFAULT_GOAL := serve

serve: $(INSTALLED)
	@$(BIN)/maxi-mlx serve --pull-default $(ARGS)

# By whole files, since tests of one share servers and models, and in their order: by default those
# with the fewest tests come last, which are the longest. Each process may take 2 GB.
test: lint
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile \
		--no-loadscope-reorder $(PYTEST_ARGS)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED_BENCH)
	$(BIN)/python benchmarks/suite.py $(ARGS)

install: $(INSTALLED)
install-dev: $(INSTALLED_DEV)

clean:
	rm -rf $(VENV)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "maxi-mlx needs Python 3.11 or newer: install it, or name it \
	by make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What serves embeddings, without what mlx-vlm names for its other uses (1 GB, opencv among it).
define install-light-embeddings
$(PIP) install --no-deps 'mlx-embeddings>=0.1.0' 'mlx-vlm>=0.7'
$(PIP) install Pillow requests
endef

# mlx-whisper without torch, which it names and never imports; audio-parts has what it does import.
define install-light-audio
$(PIP) install --no-deps 'mlx-whisper>=0.4.3,<0.5'
endef

# The builds of MLX's library overwrite each other: whichever was there before goes first.
define remove-other-library
@if ls $(VENV)/installed-* 2>/dev/null | grep -qv '^$(INSTALLED)'; then \
	$(PIP) uninstall -y mlx-cpu mlx-cuda-12 mlx-cuda-13; rm -f $(VENV)/installed-*; fi
endef

$(INSTALLED): pyproject.toml | $(BIN)/python
	$(remove-other-library)
	$(PIP) install -e '.$(if $(EXTRA),[$(EXTRA)])'
	@touch $@

$(INSTALLED_DEV): pyproject.toml | $(BIN)/python
	$(remove-other-library)
	$(PIP) install -e '.[$(DEV_EXTRAS)]'
	$(install-light-embeddings)
	$(install-light-audio)
	@touch $(INSTALLED) $@

$(INSTALLED_BENCH): pyproject.toml | $(BIN)/python
	$(remove-other-library)
	$(PIP) install -e '.[$(BENCH_EXTRAS)]'
	$(install-light-embeddings)
	$(install-light-audio)
	@touch $(INSTALLED) $@
