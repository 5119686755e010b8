"""Export with torch: python -m experiments.networks.efficientnet.export WEIGHTS TARGET."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.networks.efficientnet.architecture import export

if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))
