"""Random small configurations."""

from __future__ import annotations

import numpy as np

from codesign.accel.config import AccelConfig


def random_config(rng: np.random.Generator) -> AccelConfig:
    """Return a small legal configuration; every knob but `address_bits` varies."""

    def one_of(*values: int) -> int:
        return int(rng.choice(values))

    batch, block_out = one_of(1, 1, 2, 4), one_of(1, 2, 4, 8)
    bus_bits = one_of(32, 64, 128)
    lanes = batch * block_out
    return AccelConfig(
        batch=batch,
        block_in=one_of(1, 2, 4, 8),
        block_out=block_out,
        inp_bits=one_of(4, 8, 8, 8, 16),
        wgt_bits=one_of(2, 4, 8, 8),
        acc_bits=one_of(16, 32, 32),
        inp_depth=one_of(2, 16, 32, 64),
        wgt_depth=one_of(2, 16, 32),
        vec_depth=one_of(2, 16, 64),
        acc_depth=one_of(4, 16, 64),
        out_depth=one_of(2, 16, 32),
        param_depth=one_of(2, 8, 16),
        lut_depth=one_of(256, 512),
        acc_banks=one_of(1, 2, 2, 4),
        vector_lanes=max(1, lanes // one_of(1, 1, 2, 4)),
        bus_bits=bus_bits,
        burst_beats=one_of(1, 4, 16, 32),
        outstanding=one_of(1, 2, 8),
        queue_depth=one_of(2, 4, 8),
        has_lut=bool(rng.integers(4)),
        has_multiplier=bool(rng.integers(4)),
    ).check()
