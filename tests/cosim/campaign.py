"""Many random programs on many random configurations: RTL against both simulators.

    python -m tests.cosim.campaign --configs 20 --programs 50 --seed 1

Prints every disagreement with the seeds that reproduce it, and ends with their number.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from hardware.verilate import build_simulator
from tests.support.cosim import CACHE, MEMORIES, compare
from tests.support.programs import random_config, random_program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", type=int, default=5)
    parser.add_argument("--programs", type=int, default=20, help="programs for each configuration")
    parser.add_argument("--length", type=int, default=40, help="instructions of a program")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    mismatches = runs = cycles = 0
    begin = time.monotonic()
    for number in range(arguments.configs):
        seed = arguments.seed * 1000 + number
        config = random_config(np.random.default_rng(seed))
        print(f"configuration {seed}: {config}", flush=True)
        library = build_simulator(config, CACHE)
        for index in range(arguments.programs):
            rng = np.random.default_rng((seed, index))
            program, dram, bases = random_program(rng, config, arguments.length)
            for name, behind in MEMORIES.items():
                result = compare(program, dram, bases, behind(config), library)
                runs += 1
                cycles += result.cycles
                mismatches += bool(result.differences)
                for difference in result.differences:
                    print(f"  program {index}, memory {name}: {difference}", flush=True)
    seconds = time.monotonic() - begin
    print(f"{runs} runs, {cycles} cycles, {mismatches} disagree, {seconds:.0f} s")
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
