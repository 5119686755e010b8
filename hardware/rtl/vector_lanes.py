"""All lanes of the vector unit, in two arms of one latency."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Instance, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.isa import IMMEDIATE_BITS
from hardware.rtl.arm import Arm
from hardware.rtl.vector_lane import LANE_STAGES, VectorLane, control_layout, param_layout

MODULE = "accel_vector_lanes"
"""The module of vector_lanes.sv."""


def param_words(config: AccelConfig) -> int:
    """Return how many param words the lanes need in a cycle; further lanes repeat them."""
    return min(config.vector_lanes, config.block_out)


def result_bits(config: AccelConfig) -> int:
    """Return the width of one lane's result."""
    return max(config.acc_bits, config.inp_bits)


class VectorLanes(wiring.Component):
    """As many lanes as the configuration has; members and timing are those of `VectorLane`."""

    def __init__(self, config: AccelConfig, arm: Arm) -> None:
        self._config, self._arm = config, arm
        lanes, words = config.vector_lanes, param_words(config)
        super().__init__(
            {
                "control": In(control_layout(config)),
                "valid": In(LANE_STAGES),
                "first": In(1),
                "acc": In(lanes * config.acc_bits),
                "vec": In(lanes * config.inp_bits),
                "field": In(words * IMMEDIATE_BITS),
                "param": In(words * param_layout().size),
                "result": Out(lanes * result_bits(config)),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        if self._arm is Arm.SIMULATION:
            self._leaf(m)
        else:
            self._lanes(m)
        return m

    def _leaf(self, m: Module) -> None:
        config = self._config
        controls = {f"i_{name}": self.control[name] for name in self.control.shape().members}
        m.submodules.lanes = Instance(
            MODULE,
            p_LANES=config.vector_lanes,
            p_WORDS=param_words(config),
            p_ACC_BITS=config.acc_bits,
            p_INP_BITS=config.inp_bits,
            p_RESULT_BITS=result_bits(config),
            i_clk=ClockSignal(),
            i_valid=self.valid,
            i_first=self.first,
            i_acc=self.acc,
            i_vec=self.vec,
            i_field=self.field,
            i_param=self.param,
            o_result=self.result,
            **controls,
        )

    def _lanes(self, m: Module) -> None:
        config = self._config
        words = param_words(config)
        results = []
        for index in range(config.vector_lanes):
            m.submodules[f"lane_{index}"] = lane = VectorLane(config)
            word = self.param.word_select(index % words, param_layout().size)
            m.d.comb += [
                lane.control.eq(self.control),
                lane.valid.eq(self.valid),
                lane.first.eq(self.first),
                lane.acc.eq(self.acc.word_select(index, config.acc_bits)),
                lane.vec.eq(self.vec.word_select(index, config.inp_bits)),
                lane.field.eq(self.field.word_select(index % words, IMMEDIATE_BITS)),
                lane.param.eq(data.View(param_layout(), word)),
            ]
            results.append(lane.result)
        m.d.comb += self.result.eq(Cat(*results))
