"""Gradients of the whole language against differences: closures, recursion, data types, cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.gradient import gradient
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.values import DataValue, Result
from codesign.dtypes import Array
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.types import FuncType, TupleType
from codesign.ir.relay.wellformed import check_module
from tests.support.finite_differences import STEP
from tests.support.gradient_programs import (
    PROGRAMS,
    list_of,
    module_of,
    number,
    tensor,
)

TWICE_QUICKLY = (
    "local loop",
    "a data type with numbers",
    "closures in data",
    "a cell in a loop",
    "shared nodes",
    "unknown lengths",
)


def _leaves(value: Result) -> Iterator[Array]:
    match value:
        case np.ndarray():
            yield value
        case (tuple() as fields) | DataValue(_, fields):
            for each in fields:
                yield from _leaves(each)
        case _:
            raise AssertionError("programs take tensors, tuples and data")


def _map(value: Result, change: Callable[[Array], Array]) -> Result:
    match value:
        case np.ndarray():
            return change(value)
        case DataValue(name, fields):
            return DataValue(name, tuple(_map(each, change) for each in fields))
        case tuple():
            return tuple(_map(each, change) for each in value)
        case _:
            raise AssertionError("programs take tensors, tuples and data")


def _moved(value: Result, directions: Iterator[Array], step: float) -> Result:
    return _map(value, lambda each: np.asarray(each + step * next(directions), each.dtype))


def _value(module: Module, name: str, args: tuple[Result, ...]) -> float:
    """Return the sum of all floating-point numbers in what a function gives."""
    return _total(Interpreter(module).result_of(module.functions[name], args))


def _total(result: Result) -> float:
    return sum(float(np.sum(each)) for each in _leaves(result) if each.dtype.kind == "f")


def _gradient_of(module: Module, name: str, args: tuple[Result, ...]) -> tuple[float, Result]:
    check_module(module)
    infer_types(module)
    result = Interpreter(module).result_of(module.functions[name], args)
    assert isinstance(result, tuple)
    return _total(result[0]), result[1]


def _check(
    module: Module, name: str, args: tuple[Result, ...], rtol: float = 1e-6, directions: int = 2
) -> None:
    """Compare `@<name>_gradient` with differences of `@name` along random directions."""
    value, found = _gradient_of(module, f"{name}_gradient", args)
    assert value == _value(module, name, args)
    rng = np.random.default_rng(11)
    for _ in range(directions):
        moves = [
            rng.standard_normal(each.shape) if each.dtype.kind == "f" else np.zeros(each.shape, int)
            for each in _leaves(args)
        ]

        def at(step: float, moves: list[Array] = moves) -> float:
            moved = _moved(args, iter(moves), step)
            assert isinstance(moved, tuple)
            return _value(module, name, moved)

        near = (at(STEP) - at(-STEP)) / (2 * STEP)
        far = (at(2 * STEP) - at(-2 * STEP)) / (4 * STEP)
        expected = (4 * near - far) / 3
        pairs = list(zip(_leaves(found), moves, strict=True))
        slope = sum(float(np.sum(each * direction)) for each, direction in pairs)
        scale = max(1.0, sum(float(np.sum(np.abs(each * d))) for each, d in pairs))
        assert abs(slope - expected) <= rtol * scale


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient_is_what_differences_say(name: str) -> None:
    program = PROGRAMS[name]
    _check(gradient("main", module_of(program.text)), "main", program.args())


@pytest.mark.parametrize("name", TWICE_QUICKLY)
def test_gradient_of_value_and_gradient_is_what_differences_say(name: str) -> None:
    _check_twice(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in TWICE_QUICKLY])
def test_gradient_of_value_and_gradient_of_every_program(name: str) -> None:
    _check_twice(name)


def _check_twice(name: str) -> None:
    program = PROGRAMS[name]
    once = gradient("main", module_of(program.text))
    _check(gradient("main_gradient", once), "main_gradient", program.args(), 1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient_has_the_types_of_value_and_parameters(name: str) -> None:
    module = gradient("main", module_of(PROGRAMS[name].text))
    types = infer_types(module)
    plain, found = types[module.main], types[module.functions["main_gradient"]]
    assert isinstance(plain, FuncType)
    assert found == FuncType(plain.params, TupleType((plain.result, TupleType(plain.params))))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient_survives_printing_and_parsing(name: str) -> None:
    module = gradient("main", module_of(PROGRAMS[name].text))
    read = parse_module(print_module(module))
    assert is_equal_module(read, module)


SMOOTH = """
def @f(%x: float64, %y: float64) -> float64 {
  let %g = fn (%v: float64) -> float64 { tanh(%v * %y) * %x };
  let %total = ref(%y);
  let %loop = fn (%a: float64, %k: int32) -> float64 {
    if (%k == 0) { %a } else {
      ref_write(%total, ref_read(%total) * %a);
      %loop(%g(%a) + %x, %k - 1)
    }
  };
  %loop(%x, 2) * ref_read(%total)
}
"""

TWICE = """
def @main(%x: float64, %y: float64) -> float64 {
  let %both = @f_gradient(%x, %y).1;
  %both.0 * %x + %both.1 * %both.1
}
"""

THRICE = """
def @outer(%x: float64, %y: float64) -> float64 {
  let %both = @main_gradient(%x, %y).1;
  %both.0 * %both.1
}
"""


def test_the_gradient_of_the_gradient_is_that_of_its_differences() -> None:
    once = gradient("f", module_of(SMOOTH))
    twice = gradient("main", module_of(TWICE, once))
    _check(twice, "main", (number(0.7), number(0.4)), 1e-5)


@pytest.mark.slow
def test_three_gradients_deep() -> None:
    once = gradient("f", module_of(SMOOTH))
    twice = gradient("main", module_of(TWICE, once))
    thrice = gradient("outer", module_of(THRICE, twice))
    _check(thrice, "outer", (number(0.7), number(0.4)), 1e-5, directions=1)


def test_an_inner_gradient_does_not_confuse_its_variable_with_the_outer_one() -> None:
    """d/dx (x * d/dy (x + y)) = 1, not 2: Siskind and Pearlmutter's example."""
    inner = gradient(
        "inner", module_of("def @inner(%x: float64, %y: float64) -> float64 { %x + %y }")
    )
    outer = module_of(
        "def @main(%x: float64) -> float64 { %x * @inner_gradient(%x, 1f64).1.1 }", inner
    )
    _, slopes = _gradient_of(gradient("main", outer), "main_gradient", (number(3.0),))
    assert [float(each) for each in _leaves(slopes)] == [1.0]


def test_a_result_that_is_given_twice_counts_twice() -> None:
    module = module_of("def @main(%x: float64) -> (float64, List[float64]) { (%x, Cons(%x, Nil)) }")
    _, slopes = _gradient_of(gradient("main", module), "main_gradient", (number(3.0),))
    assert [float(each) for each in _leaves(slopes)] == [2.0]


def test_named_parameters_only() -> None:
    module = module_of("def @main(%x: float64, %y: float64) -> float64 { %x * %y }")
    for mode in ("first_order", "higher_order"):
        grown = gradient("main", module, mode=mode, parameters=["y"])
        _, slopes = _gradient_of(grown, "main_gradient", (number(3.0), number(4.0)))
        assert [float(each) for each in _leaves(slopes)] == [3.0]


def test_functions_without_numbers_are_shared() -> None:
    program = PROGRAMS["map and fold"]
    grown = gradient("main", module_of(program.text))
    twins = {name for name in grown.functions if name.endswith("_reverse")}
    assert twins == {"main_reverse"}


def test_a_loop_of_many_steps_runs_backwards() -> None:
    module = module_of(
        """
        def @loop(%x: float64, %n: int32) -> float64 {
          if (%n == 0) { %x } else { @loop(%x * 1.0001f64, %n - 1) }
        }
        def @main(%x: float64) -> float64 { @loop(%x, 400) }
        """
    )
    _, slopes = _gradient_of(gradient("main", module), "main_gradient", (number(3.0),))
    (slope,) = _leaves(slopes)
    np.testing.assert_allclose(slope, 1.0001**400, rtol=1e-10)


def test_gradient_of_a_list_of_tensors_is_a_list_of_tensors() -> None:
    module = module_of(
        """
        def @main(%xs: List[Tensor[(2,), float64]]) -> List[Tensor[(2,), float64]] {
          @map(fn (%x: Tensor[(2,), float64]) -> Tensor[(2,), float64] { %x * %x }, %xs)
        }
        """
    )
    grown = gradient("main", module)
    values = list_of(tensor(2), tensor(2, seed=5))
    result = Interpreter(grown).result_of(grown.functions["main_gradient"], (values,))
    assert isinstance(result, tuple)
    for each, slope in zip(_leaves(values), _leaves(result[1]), strict=True):
        np.testing.assert_allclose(slope, 2 * each)
