"""Run a network on a simulator that counts its branches: python -m … LIBRARY < config.toml.

The counts are written when the process ends.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from codesign.accel.config import AccelConfig
from codesign.sim.rtl import RtlSimulator
from experiments.road.build import compile_accel, quantize_subject
from experiments.road.subject import subject
from host_runtime.session import Session

NETWORK: Final = "digits"
SAMPLES: Final = 4


def main(library: Path, config: AccelConfig) -> None:
    """Run samples of the network; a configuration that is too small for it learns nothing."""
    judged = subject(NETWORK, samples=SAMPLES)
    executable = compile_accel(judged, quantize_subject(judged, _quietly), config, _quietly)
    session = Session(executable, RtlSimulator(config, library))
    for sample in judged.evaluation:
        session.run(sample)


def _quietly(_: str) -> None:
    pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), AccelConfig.from_toml(sys.stdin.read()))
