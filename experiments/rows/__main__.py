"""Measure one promised figure: python -m experiments.rows NAME; the last line is the figure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from codesign.diagnostics import CodesignError
from experiments.rows.accelerator import accel_cycles, accel_gemm, accel_load, accel_values
from experiments.rows.accelerator_speed import accel_fast_speed, accel_rtl_speed
from experiments.rows.accelerator_text import accel_lint, accel_xprop
from experiments.rows.cpu_time import road_cpu
from experiments.rows.demo_time import road_demo
from experiments.rows.fpga import accel_bitstream, accel_board, accel_estimate
from experiments.rows.gpu import gpu_planted, gpu_ptxas, gpu_simt
from experiments.rows.gpu_device import gpu_device, gpu_matmul
from experiments.rows.measurement import CONSOLE, Measurement
from experiments.rows.relay_calls import relay_call, relay_compile
from experiments.rows.relay_laws import relay_laws, relay_native, relay_roundtrip
from experiments.rows.relay_models import relay_rnn, relay_treelstm
from experiments.rows.relay_passes import relay_linear
from experiments.rows.road import road_bitexact, road_cycles, road_fp32, road_top1
from experiments.rows.scalesim import study_vs_scalesim
from experiments.rows.study_batching import study_batching
from experiments.rows.study_compiler import (
    study_mobilenet,
    study_r18_ideal,
    study_r18_layers,
    study_r18_real,
    study_tile_time,
)
from experiments.rows.study_random import study_monotone, study_random
from experiments.rows.study_recurrent import study_lstm
from experiments.rows.sweep import study_sweep
from experiments.rows.training import relay_train

ROWS: Final[Mapping[str, Callable[[], Measurement]]] = MappingProxyType(
    {
        "road-bitexact": road_bitexact,
        "road-cycles": road_cycles,
        "road-fp32": road_fp32,
        "road-top1": road_top1,
        "road-demo": road_demo,
        "road-cpu": road_cpu,
        "relay-call": relay_call,
        "relay-compile": relay_compile,
        "relay-treelstm": relay_treelstm,
        "relay-rnn": relay_rnn,
        "accel-values": accel_values,
        "accel-cycles": accel_cycles,
        "accel-gemm": accel_gemm,
        "accel-load": accel_load,
        "accel-lint": accel_lint,
        "accel-xprop": accel_xprop,
        "accel-rtl-speed": accel_rtl_speed,
        "accel-fast-speed": accel_fast_speed,
        "accel-bitstream": accel_bitstream,
        "accel-board": accel_board,
        "accel-estimate": accel_estimate,
        "study-sweep": study_sweep,
        "gpu-simt": gpu_simt,
        "gpu-ptxas": gpu_ptxas,
        "gpu-planted": gpu_planted,
        "gpu-device": gpu_device,
        "gpu-matmul": gpu_matmul,
        "study-r18-ideal": study_r18_ideal,
        "study-r18-real": study_r18_real,
        "study-r18-layers": study_r18_layers,
        "study-mobilenet": study_mobilenet,
        "study-tile-time": study_tile_time,
        "study-lstm": study_lstm,
        "study-batching": study_batching,
        "study-vs-scalesim": study_vs_scalesim,
        "study-random": study_random,
        "study-monotone": study_monotone,
        "relay-roundtrip": relay_roundtrip,
        "relay-laws": relay_laws,
        "relay-native": relay_native,
        "relay-train": relay_train,
        "relay-linear": relay_linear,
    }
)


def main(arguments: list[str]) -> int:
    """Measure the named row; exit 1 where it cannot be measured, 2 where there is none such."""
    if len(arguments) != 1 or arguments[0] not in ROWS:
        CONSOLE.print(f"usage: make show ROW=name, one of: {', '.join(ROWS)}")
        return 2
    try:
        measured = ROWS[arguments[0]]()
    except CodesignError as error:
        CONSOLE.print(str(error), markup=False)
        return 1
    sys.stdout.write(measured.line(arguments[0]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
