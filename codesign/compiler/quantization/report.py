"""What quantization did: ranges, scales, what was cut off, and what stayed fp32 and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.compiler.quantization.config import Scheme


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport:
    """One layer: a group of calls that has one result.

    `least` and `greatest` were seen in fp32; `low` and `high` are the ends of the chosen range,
    None (as scale and zero point) where integer sums leave in floating point. `clipped` of
    `values` seen values lie outside it. `sqnr_db` is the ratio of the signal to the quantization's
    noise against fp32, None where it was not measured.
    """

    name: str
    operator: str
    is_integer: bool
    reason: str = ""
    least: float | None = None
    greatest: float | None = None
    low: float | None = None
    high: float | None = None
    scale: float | None = None
    zero_point: int | None = None
    clipped: int = 0
    values: int = 0
    sqnr_db: float | None = None
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """All layers in order of evaluation."""

    layers: tuple[LayerReport, ...]
    samples: int
    scheme: Scheme

    @property
    def floating(self) -> tuple[LayerReport, ...]:
        """The layers that stay in fp32, each with its reason."""
        return tuple(layer for layer in self.layers if not layer.is_integer)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know: `layer: note`."""
        return tuple(f"{layer.name}: {note}" for layer in self.layers for note in layer.notes)

    def layer(self, name: str) -> LayerReport:
        """Return a layer by its name; raise KeyError where there is none."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)

    def table(self) -> str:
        """Return the report as text, a line for each layer."""
        header = f"{'layer':32} {'operator':20} {'range':>23} {'scale':>10} {'zp':>5} {'cut':>8}"
        return "\n".join([f"{header} {'SQNR dB':>8}  notes", *map(_line, self.layers)])


def _line(layer: LayerReport) -> str:
    start = f"{layer.name[-32:]:32} {layer.operator[:20]:20}"
    if not layer.is_integer:
        return f"{start} stays fp32: {layer.reason}"
    sqnr = "" if layer.sqnr_db is None else f"{layer.sqnr_db:.1f}"
    notes = "; ".join(layer.notes)
    if layer.scale is None:
        return f"{start} {'gives its sums in fp32':>49} {sqnr:>8}  {notes}".rstrip()
    interval = f"[{layer.low:.4g}, {layer.high:.4g}]"
    return (
        f"{start} {interval:>23} {layer.scale:>10.4g} {layer.zero_point:>5} "
        f"{layer.clipped:>8} {sqnr:>8}  {notes}"
    ).rstrip()
