"""Many random programs on many configurations: RTL against both simulators.

    python -m tests.cosim.campaign --configs 20 --programs 50 --seed 1

Prints every disagreement with what reproduces it, and ends with their number.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.support.campaign import campaign, configurations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", type=int, default=5)
    parser.add_argument("--programs", type=int, default=20, help="programs for each configuration")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    begin = time.monotonic()
    chosen = list(configurations(arguments.configs, arguments.seed))
    found = campaign(
        chosen, arguments.programs, arguments.seed, lambda line: print(line, flush=True)
    )
    print(
        f"{found.runs} runs, {found.cycles} cycles, {found.differing_programs} programs differ, "
        f"counters {found.distance} off, {time.monotonic() - begin:.0f} s"
    )
    return 1 if found.sentences else 0


if __name__ == "__main__":
    sys.exit(main())
