"""Points: a network, a target and a configuration, with an identity that outlives a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from codesign import __version__
from codesign.accel.config import AccelConfig
from experiments.sweep.plan import MEASURED, Plan


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one row is about. The configuration need not be legal: its row says so."""

    network: str
    target: str
    config: AccelConfig
    samples: int = 1
    tiling: str = "search"

    @property
    def identity(self) -> str:
        """32 hex digits: network (a file's content too), target, samples, all knobs, version."""
        parts = [__version__, self.target, _network_identity(self.network)]
        if self.samples > 1:
            parts.append(f"{self.samples} samples")
        if self.target == "accel":
            parts += [self.config.to_toml(), self.tiling]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def points(plan: Plan) -> Iterator[Point]:
    """Yield a plan's points, network by network."""
    for network in plan.networks:
        base = plan.bases[0]
        for target in (each for each in MEASURED if each in plan.targets):
            for samples in plan.samples_of(base):
                yield Point(network=network, target=target, config=base, samples=samples)
        if "accel" in plan.targets:
            for config in plan.configurations():
                for samples in plan.samples_of(config):
                    yield Point(
                        network=network,
                        target="accel",
                        config=config,
                        samples=samples,
                        tiling=plan.tiling,
                    )


def _network_identity(network: str) -> str:
    path = Path(network)
    if path.suffix == ".onnx" and path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return network
