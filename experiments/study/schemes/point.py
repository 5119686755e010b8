"""Points of the schemes' study: what is measured, and what was."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from codesign.compiler.quantization import RangeMethod

FP32: Final = "fp32"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One network in one scheme; `power_of_two` says that its scales are."""

    network: str
    scheme: str
    ranges: str
    power_of_two: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was measured of a setting.

    `right_top1_percent` is of true labels, empty where there are none; `same_top1_percent` and
    `sqnr_db` are against fp32. `time_ms` is the least time of a sample, all schemes of a network
    taken in turns in one process; empty where only accuracy was measured.
    """

    network: str
    scheme: str
    ranges: str
    power_of_two: bool
    samples: int
    right_top1_percent: float | None
    same_top1_percent: float | None
    sqnr_db: float | None
    time_ms: float | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network of the plan: its inputs, and whether its weights are rounded with care."""

    name: str
    samples: int
    calibration: int
    ranges: tuple[str, ...] = ()
    compensate: bool = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A convolution that is timed alone, as many channels in as out."""

    name: str
    channels: int
    plane: int
    kernel: int
    groups: int = 1

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of data and result."""
        return (1, self.channels, self.plane, self.plane)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    schemes: tuple[str, ...]
    networks: tuple[Network, ...]
    layers: tuple[Layer, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of all networks and layers, in order."""
        return [*(each.name for each in self.networks), *(each.name for each in self.layers)]

    def settings(self, network: Network) -> Iterator[Setting]:
        """Return a network's settings: each scheme, then each way of choosing ranges."""
        for scheme in self.schemes:
            yield Setting(network=network.name, scheme=scheme, ranges=RangeMethod.MSE)
        for ranges in network.ranges:
            for power_of_two in (False, True):
                for scheme in self.schemes:
                    if scheme != FP32 and (ranges != RangeMethod.MSE or power_of_two):
                        yield Setting(
                            network=network.name,
                            scheme=scheme,
                            ranges=ranges,
                            power_of_two=power_of_two,
                        )


def read_plan(path: Path) -> Plan:
    """Return the plan of a file."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    networks = tuple(
        Network(**{**each, "ranges": tuple(each.get("ranges", ()))}) for each in content["network"]
    )
    layers = tuple(Layer(**each) for each in content["layer"])
    return Plan(schemes=tuple(content["schemes"]), networks=networks, layers=layers)
