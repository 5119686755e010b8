"""Measure the schemes' study: python -m experiments.study.schemes [NETWORK …]."""

from __future__ import annotations

import sys

from experiments.study.schemes.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
