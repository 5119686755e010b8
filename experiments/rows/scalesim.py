"""study-vs-scalesim: how much sooner our timing of ResNet-18's layers ends than SCALE-Sim's.

SCALE-Sim v3 (PyPI `scalesim`) runs in a virtual environment of its own under build/, on a 16 x 16
array whose sums stay, with the scratchpads of the preset `base`; without stalls, traces or layouts,
which is its shortest way. Ours tiles each layer for `base`, emits its program and runs the cycle
simulator on it, behind a 64-bit bus with 60 cycles of latency. Both say how much processor time
they took for the same layers; imports and start are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np

from codesign.accel.config import Memory
from codesign.accel.presets import preset
from codesign.diagnostics import CodesignError
from codesign.sim.cycle import program_cycles
from experiments.rows.measurement import CONSOLE, Measurement
from tests.support.regions import Maker, kernel_of

ENVIRONMENT: Final = Path("build/scalesim")
PACKAGES: Final = ("scalesim==3.0.0", "numpy==1.26.4", "pandas==2.2.3")
REAL: Final = preset("base").with_dram(latency_cycles=60)

_RUN: Final = """
import contextlib, io, json, sys, time
from scalesim.scale_sim import scalesim
folder = sys.argv[1]
with contextlib.redirect_stdout(io.StringIO()):
    run = scalesim(save_disk_space=True, verbose=False, config=folder + "/array.cfg",
                   topology=folder + "/layers.csv", layout=folder + "/layouts.csv")
    before = time.process_time()
    run.run_scale(top_path=folder)
    seconds = time.process_time() - before
print(json.dumps(seconds))
"""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayer:
    """A convolution of square planes: `side` of the input, channels, kernel, stride."""

    name: str
    side: int
    inputs: int
    outputs: int
    kernel: int
    stride: int

    @property
    def padding(self) -> int:
        """Elements around the plane."""
        return self.kernel // 2


def _layer(name: str, side: int, inputs: int, outputs: int, kernel: int, stride: int) -> ConvLayer:
    return ConvLayer(
        name=name, side=side, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride
    )


LAYERS: Final = (
    _layer("C1", 224, 3, 64, 7, 2),
    _layer("C2", 56, 64, 64, 3, 1),
    _layer("C3", 56, 64, 128, 3, 2),
    _layer("C4", 56, 64, 128, 1, 2),
    _layer("C5", 28, 128, 128, 3, 1),
    _layer("C6", 28, 128, 256, 3, 2),
    _layer("C7", 28, 128, 256, 1, 2),
    _layer("C8", 14, 256, 256, 3, 1),
    _layer("C9", 14, 256, 512, 3, 2),
    _layer("C10", 14, 256, 512, 1, 2),
    _layer("C11", 7, 512, 512, 3, 1),
)
"""The different convolutions of ResNet-18, by the names that VTA's benchmarks gave them."""


def study_vs_scalesim(layers: Sequence[ConvLayer] = LAYERS) -> Measurement:
    """Return SCALE-Sim's processor time over ours for the timing of layers."""
    python = _environment()
    ours = _our_seconds(layers)
    CONSOLE.print(f"ours: {ours:.2f} s for {len(layers)} layers; SCALE-Sim runs")
    theirs = _their_seconds(python, layers)
    CONSOLE.print(f"SCALE-Sim: {theirs:.1f} s")
    return Measurement(value=theirs / ours, unit="times", digits=1)


def _our_seconds(layers: Sequence[ConvLayer]) -> float:
    _our_cycles(LAYERS[-2])  # loads the compiled simulator
    before = time.process_time()
    for layer in layers:
        cycles = _our_cycles(layer)
        CONSOLE.print(f"{layer.name:4} {cycles:10,} cycles")
    return time.process_time() - before


def _our_cycles(layer: ConvLayer) -> int:
    maker = Maker(np.random.default_rng(0))
    x = maker.var((1, layer.inputs, layer.side, layer.side))
    weight = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
    padding, strides = (layer.padding,) * 4, (layer.stride, layer.stride)
    body = maker.conv(x, weight, padding=padding, strides=strides)
    return program_cycles(kernel_of((x,), body, REAL).program, REAL)


def _environment() -> Path:
    """Return the interpreter that has SCALE-Sim, installing it where it is not there yet."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file():
        CONSOLE.print(f"installing {', '.join(PACKAGES)} in {ENVIRONMENT}")
        _checked([sys.executable, "-m", "venv", str(ENVIRONMENT)])
    found = subprocess.run([str(python), "-c", "import scalesim"], capture_output=True, check=False)
    if found.returncode:
        _checked([str(python), "-m", "pip", "install", "--quiet", *PACKAGES])
    return python


def _their_seconds(python: Path, layers: Sequence[ConvLayer]) -> float:
    folder = ENVIRONMENT / "run"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "array.cfg").write_text(_configuration(), encoding="utf-8")
    (folder / "layers.csv").write_text(_topology(layers), encoding="utf-8")
    (folder / "layouts.csv").write_text(_layouts(layers), encoding="utf-8")
    return float(json.loads(_checked([str(python), "-c", _RUN, str(folder)])))


def _checked(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CodesignError.of(
            f"{Path(command[0]).name} of {ENVIRONMENT} fails", found=done.stderr.strip()[-500:]
        )
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def _configuration() -> str:
    kibibytes = {
        each: max(1, REAL.memory_bytes(each) // 1024)
        for each in (Memory.INP, Memory.WGT, Memory.OUT)
    }
    return f"""[general]
run_name = layers
[architecture_presets]
ArrayHeight: {REAL.block_in}
ArrayWidth: {REAL.block_out}
IfmapSramSzkB: {kibibytes[Memory.INP]}
FilterSramSzkB: {kibibytes[Memory.WGT]}
OfmapSramSzkB: {kibibytes[Memory.OUT]}
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: os
ReadRequestBuffer: 64
WriteRequestBuffer: 64
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


def _topology(layers: Sequence[ConvLayer]) -> str:
    """Return SCALE-Sim's table of layers; it has no padding, so that planes contain theirs."""
    lines = ["Layer, height, width, filter height, filter width, channels, filters, strides,"]
    for each in layers:
        side = each.side + 2 * each.padding
        numbers = (side, side, each.kernel, each.kernel, each.inputs, each.outputs, each.stride)
        lines.append(f"{each.name}, {', '.join(map(str, numbers))},")
    return "\n".join(lines) + "\n"


def _layouts(layers: Sequence[ConvLayer]) -> str:
    """Return the table of layouts that SCALE-Sim wants even where it uses none."""
    ones = ", ".join(["1"] * 16)
    return "\n".join(["Layer,", *(f"{each.name}, {ones}," for each in layers)]) + "\n"
