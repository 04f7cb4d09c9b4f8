# Entry points. Two of them work on a fresh clone of a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
DEVICE := build/venv-device
DEV := build/venv
OUT := build
EPOCHS ?= 50
KILLS ?= 300

MODELS ?= lcnn
JOBS ?= 1
CONVERT ?=
DATA ?=
SUITE ?= bookworm
PICTURES = $(if $(strip $(DATA)),$(DATA),$(OUT)/demo/leaves)

.PHONY: help demo test test-kills lint convert bench-corruptions lock clean check-arm64
.DEFAULT_GOAL := help

help:
	@echo "make demo                  classify drawn sample leaves with the shipped model, time it, write a report"
	@echo "make demo DATA=DIR         the same with your photographs (one folder a class), scored"
	@echo "make test                  install everything and run linters, type checks and tests"
	@echo "make test-kills            kill the journal's writer 300 times and look for every acknowledged row [KILLS=300]"
	@echo "make convert DATA=DIR      train on both splits, convert, check, print the table [MODELS=lcnn|all EPOCHS=50 JOBS=1"
	@echo "                           CONVERT='--weights FILE --auto ...': options of mango-convert all]"
	@echo "make bench-corruptions     corruption by corruption, beside the package's own speed"
	@echo "make check-arm64           install and try the kit on an emulated arm64 Debian (root, network) [SUITE=bookworm]"
	@echo "make lock                  renew the lock files"

# The environments are made from lock files with digests. --no-deps: the lock file is complete, and the
# corruption package asks for an OpenCV build that must not stand beside the headless one.
$(DEVICE)/ready: requirements/device.txt pyproject.toml
	$(PYTHON) -m venv $(DEVICE)
	$(DEVICE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/device.txt
	$(DEVICE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

$(DEV)/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(DEV)
	$(DEV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	$(DEV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# The samples of a demo without DATA are drawn by a program: they try every step, they do not test the model's skill.
demo: $(DEVICE)/ready
	mkdir -p $(OUT)/demo
ifeq ($(strip $(DATA)),)
	$(DEVICE)/bin/mango-bench draw $(OUT)/demo/leaves
endif
	$(DEVICE)/bin/mango-edge info
	$(DEVICE)/bin/mango-edge classify "$(PICTURES)" --csv > $(OUT)/demo/predictions.csv
	@head -n 9 $(OUT)/demo/predictions.csv; echo "... all of them: $(OUT)/demo/predictions.csv"
	$(DEVICE)/bin/mango-bench latency --pictures "$(PICTURES)" --min-time 5s --max-time 20s --out $(OUT)/demo/latency.json
ifneq ($(strip $(DATA)),)
	$(DEVICE)/bin/mango-bench robustness --data "$(DATA)" --images auto --corruptions none --out $(OUT)/demo/score.json
endif
	$(DEVICE)/bin/mango-bench report $(OUT)/demo/latency.json $(if $(strip $(DATA)),$(OUT)/demo/score.json) --out $(OUT)/demo

test: lint
	$(DEV)/bin/python -m pytest -n auto --dist worksteal

test-kills: $(DEV)/ready
	MANGO_KILLS=$(KILLS) $(DEV)/bin/python -m pytest -s tests/test_journal_kills.py

lint: $(DEV)/ready
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy edge convert bench

convert: $(DEV)/ready
	@test -n "$(DATA)" || { echo "error: say where the photographs are: make convert DATA=DIR" >&2; exit 2; }
	$(DEV)/bin/mango-convert all $(MODELS) --data "$(DATA)" --out $(OUT)/convert --epochs $(EPOCHS) --jobs $(JOBS) $(CONVERT)

bench-corruptions: $(DEV)/ready
	$(DEV)/bin/mango-bench corruptions-speed

# Half an hour and more, for the emulated installation; needs root, debootstrap, network. Not part of CI.
check-arm64: $(DEVICE)/ready
	SUITE="$(SUITE)" DATA="$(DATA)" OUT="$(OUT)/arm64" BIN="$(DEVICE)/bin" bash firmware_notes/check_arm64.sh

lock:
	$(PYTHON) -m venv build/venv-lock
	build/venv-lock/bin/python -m pip install --quiet uv
	for set in device dev; do \
	  extras=$$([ $$set = dev ] && echo "--extra dev" || echo "--extra bench --extra field --extra mqtt"); \
	  build/venv-lock/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header \
	    --no-annotate --upgrade --overrides requirements/overrides.txt $$extras pyproject.toml \
	    requirements/imagecorruptions.in -o requirements/$$set.txt || exit 1; \
	done

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache
