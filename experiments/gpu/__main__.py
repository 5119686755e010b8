"""Everything that a device can show, in one run: python -m experiments.gpu.

The battery of operators, the product of large matrices, and networks at batches of 1 and 64; each
result is printed as it comes and is in the file at once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from codesign.diagnostics import CodesignError
from experiments.gpu.bench import opened
from experiments.gpu.measure import battery, matmul, networks
from experiments.rows.measurement import CONSOLE


def main(arguments: list[str]) -> int:
    """Measure; return 0 where all could be measured and no operator failed."""
    parser = argparse.ArgumentParser(prog="python -m experiments.gpu", description=__doc__)
    parser.add_argument("--limit", type=float, default=540.0, help="seconds until it ends")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="where results go")
    parser.add_argument("--type", default="float16", choices=("float16", "float32"))
    given = parser.parse_args(arguments)
    try:
        with opened(given.out / "results.json", given.limit) as bench:
            failures = battery(bench)
            share = matmul(bench)
            ratios = networks(bench, np.dtype(given.type))
    except CodesignError as error:
        CONSOLE.print(str(error), markup=False)
        return 1
    sys.stdout.write(f"battery failures: {failures}\n")
    sys.stdout.write(f"matmul percent of PyTorch: {share}\n")
    for batch, ratio in ratios.items():
        sys.stdout.write(f"batch {batch} times as fast as PyTorch: {ratio:.2f}\n")
    return 0 if failures == 0 and share is not None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
