"""The comparison finds what differs, names the first layer and element, and counts honestly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codesign.accel.presets import preset
from experiments.road import compare as compare_module
from experiments.road.build import OnCpu, build_on_cpu
from experiments.road.compare import Comparison, compare
from experiments.road.devices import device
from experiments.road.disagreement import count_differing, differing, first_disagreement
from experiments.road.layers import LayerRow, bound, utilization
from experiments.road.report import as_json
from experiments.road.stages import Stage, StageResult
from experiments.road.subject import subject
from experiments.rows.__main__ import ROWS
from experiments.rows.__main__ import main as rows_main
from experiments.rows.measurement import Measurement

TINY = preset("tiny")


def _silent(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def digits() -> OnCpu:
    return build_on_cpu(subject("digits", samples=3), _silent)


class Faulty:
    """A simulator that changes one byte of memory after the run, or tells one cycle too many."""

    def __init__(self, inner, address: Callable[[int], int] | None, cycles: int = 0) -> None:
        self._inner, self._address, self._cycles = inner, address, cycles
        self.name, self.config = inner.name, inner.config

    def run(self, program, dram, bases, progress=None):
        outcome = self._inner.run(program, dram, bases, progress)
        if self._address is not None:
            dram[self._address(bases[1])] ^= 1
        if outcome.cycles is not None:
            object.__setattr__(outcome, "cycles", outcome.cycles + self._cycles)
        return outcome


def _with_fault(
    monkeypatch: pytest.MonkeyPatch, digits: OnCpu, stage: str, layer: str | None, cycles: int = 0
) -> Comparison:
    def faulty(name: str, config, say):
        healthy = device("cycle" if name == "rtl" else name, config, say)
        if name != stage:
            return healthy
        return Faulty(healthy, address, cycles)

    executable = compare_module.compile_accel(digits.subject, digits.quantized, TINY, _silent)
    (step,) = executable.accel_steps
    address = None
    if layer is not None:
        output = next(r.output for r in step.kernel.layers if r.name == layer)
        place = next(p for p in step.kernel.tensors if p.name == output)
        offset = place.address * TINY.bus_bytes
        address = lambda base: base + offset  # noqa: E731
    monkeypatch.setattr(compare_module, "device", faulty)
    return compare(digits, TINY, _silent, rtl_samples=1)


def test_a_healthy_network_agrees(monkeypatch, digits: OnCpu) -> None:
    result = _with_fault(monkeypatch, digits, "none", None)
    assert result.agrees
    assert result.differing_elements == 0
    assert result.top1_agreement() == 1.0
    assert sum(row.cycles for row in result.layers()) == pytest.approx(
        result.stages[Stage.CYCLE].cycles[0], rel=0.05
    )


def test_one_wrong_byte_of_the_circuit_is_found_in_its_layer(monkeypatch, digits: OnCpu) -> None:
    result = _with_fault(monkeypatch, digits, "rtl", "e")
    assert not result.agrees
    assert result.differing_elements == 1
    (found,) = result.disagreements
    assert (found.left, found.right, found.sample, found.count) == ("cycle", "rtl", 0, 1)
    assert found.tensor.endswith("/e")
    assert found.index == (0, 0, 0, 0)
    assert abs(found.left_value - found.right_value) == 1
    assert as_json(result)["agrees"] is False
    assert "differ first in" in as_json(result)["disagreements"][0]


def test_one_wrong_byte_of_all_simulators_is_found_by_the_interpreter(
    monkeypatch, digits: OnCpu
) -> None:
    result = _with_fault(monkeypatch, digits, "functional", "logits")
    first = result.disagreements[0]
    assert (first.left, first.right) == ("interpreter", "functional")
    assert first.tensor.endswith("/logits")
    assert first.count == 1
    assert not result.agrees


def test_one_cycle_too_many_is_a_disagreement(monkeypatch, digits: OnCpu) -> None:
    result = _with_fault(monkeypatch, digits, "rtl", None, cycles=1)
    assert result.cycle_differences == 1
    assert result.differing_elements == 0
    assert not result.agrees


def test_differing_compares_bits() -> None:
    left = np.array([0.0, np.nan, 1.0], np.float32)
    right = np.array([-0.0, np.nan, 1.0], np.float32)
    assert differing(left, right).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="cannot be compared"):
        differing(left, right.astype(np.float64))


def _result(stage: Stage, tensors: dict[str, np.ndarray], output: np.ndarray) -> StageResult:
    return StageResult(
        stage=stage,
        outputs=({"y": output},),
        tensors=(tensors,),
        cycles=(None,),
        profile=None,
        pipeline=None,
        time_s=0.0,
    )


def test_the_first_of_several_layers_is_named_and_all_elements_are_counted(digits: OnCpu) -> None:
    good = {name: np.zeros((2, 2), np.int8) for name in ("a", "b", "c")}
    bad = {**good, "b": np.array([[0, 7], [0, 1]], np.int8), "c": np.ones((2, 2), np.int8)}
    left = _result(Stage.CYCLE, good, np.zeros(3, np.float32))
    right = _result(Stage.RTL, bad, np.array([0, 0, 1], np.float32))
    found = first_disagreement(left, right, digits.quantized.module, digits.subject.evaluation)
    assert found is not None
    assert (found.tensor, found.index, found.count) == ("b", (0, 1), 2)
    assert found.text() == (
        "cycle and rtl differ first in b, element [0, 1] of sample 0: 0 and 7 "
        "(2 of 4 elements differ)"
    )
    assert count_differing(left, right) == 2 + 4 + 1


def _row(cycles: int, macs: int, bound_by: str) -> LayerRow:
    return LayerRow(
        name="l",
        operator="qnn.conv2d",
        unit="gemm",
        cycles=cycles,
        least_cycles=cycles,
        bound=bound_by,
        macs=macs,
        bytes=50,
    )


def test_utilization_and_bound_by_hand() -> None:
    rows = (_row(10, 80, "gemm"), _row(30, 160, "memory"))
    assert rows[0].utilization(TINY) == 0.5  # 80 MACs in 10 cycles of 16
    assert rows[0].intensity == 1.6
    assert utilization(rows, 40, TINY) == 240 / (40 * 16)
    assert bound(rows) == "memory"


def test_a_row_prints_name_value_unit() -> None:
    assert Measurement(value=0, unit="cycles").line("road-cycles") == "road-cycles: 0 cycles"
    assert Measurement(value=1.234, unit="s", digits=1).line("x") == "x: 1.2 s"


def test_the_promised_rows_are_there_and_unknown_ones_are_refused() -> None:
    promised = {"bitexact", "cycles", "fp32", "top1", "demo", "cpu"}
    assert {f"road-{name}" for name in promised} <= set(ROWS)
    assert rows_main(["road-magic"]) == 2
