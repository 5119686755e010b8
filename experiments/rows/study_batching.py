"""study-batching: what 16 samples at once gain over one, at an equal number of multipliers.

One sample on 1x16x16 against 16 samples on 16x4x4, behind a memory that bounds both: 2 bytes a
cycle, 60 cycles of latency. The gain is the ratio of cycles for each sample. The prediction is the
same ratio of the roofline's cycles (`study_bounds`, in whole tiles of both arrays). The figures are
those of ResNet-18, whole, and of the TreeLSTM's inner node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codesign.accel.presets import preset
from codesign.diagnostics import CodesignError
from experiments.rows.measurement import CONSOLE, Measurement
from experiments.sweep.measure import measure
from experiments.sweep.network import Prepared, prepare
from experiments.sweep.point import Point
from experiments.sweep.row import Row

NETWORKS: Final = ("tree-cell", "resnet18")
TOLERANCE: Final = 0.10
BYTES_PER_CYCLE: Final = 2
LATENCY_CYCLES: Final = 60


def study_batching(networks: Sequence[str] = NETWORKS) -> Measurement:
    """Return the gains of the networks; the value is the last one's, the unit names the others.

    Raises
    ------
    CodesignError
        A gain is further from its prediction than a tenth of it.
    """
    gains = {name: _gain(name) for name in networks}
    *before, (last, (gain, prediction)) = gains.items()
    others = [f"; {name} {gain:.2f} of {predicted:.2f}" for name, (gain, predicted) in before]
    wrong = [
        f"{name}: {gain:.2f} against {predicted:.2f}"
        for name, (gain, predicted) in gains.items()
        if abs(gain / predicted - 1) > TOLERANCE
    ]
    if wrong:
        raise CodesignError.of("a gain is not what the roofline predicts", found="; ".join(wrong))
    unit = f"times for {last}, predicted {prediction:.2f}{''.join(others)}"
    return Measurement(value=gain, unit=unit, digits=2)


def _gain(name: str) -> tuple[float, float]:
    """Return a network's gain and the roofline's prediction."""
    network = prepare(name, lambda text: CONSOLE.print(f"{name}: {text}"))
    alone, together = _row(network, "base", 1), _row(network, "batch16", 16)
    gain = _ratio(alone.cycles, together.cycles) * together.samples
    tiled = _ratio(alone.tile_roofline_cycles, together.tile_roofline_cycles) * together.samples
    own = _ratio(alone.roofline_cycles, together.roofline_cycles) * together.samples
    CONSOLE.print(
        f"{name}: gain {gain:.3f}, roofline in tiles {tiled:.3f}, of the network's own bytes"
        f" {own:.3f}"
    )
    return gain, tiled


def _row(network: Prepared, name: str, samples: int) -> Row:
    config = preset(name).with_dram(latency_cycles=LATENCY_CYCLES, bytes_per_cycle=BYTES_PER_CYCLE)
    point = Point(network=network.name, target="accel", config=config, samples=samples)
    row = measure(point, network).row
    if row.cycles is None or row.roofline_cycles is None:
        raise CodesignError.of(f"{network.name} does not run on {name}", found=row.reason)
    CONSOLE.print(
        f"{network.name}: {row.cycles / samples:,.0f} cycles a sample on {name} with {samples},"
        f" roofline {row.roofline_cycles / samples:,.0f}"
    )
    return row


def _ratio(one: float | None, other: float | None) -> float:
    assert one is not None, "the first point was measured"
    assert other is not None, "the second point was measured"
    return one / other
