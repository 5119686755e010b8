"""Fetch the networks and record onnxruntime's answers: python -m experiments.networks."""

from __future__ import annotations

import sys

from rich.console import Console

from experiments.networks.answers import has_onnxruntime, recorded
from experiments.networks.registry import NETWORKS


def main() -> int:
    """Report each network as ready or say why it is not; exit 0 in both cases."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for network in NETWORKS:
        reason = network.missing()
        if reason is None and has_onnxruntime():
            recorded(network)
        console.print(f"{network.name:20} {'ready' if reason is None else reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
