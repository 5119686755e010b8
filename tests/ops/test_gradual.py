"""Every operator where lengths are unknown: a type that the known one fits, or a reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import eq

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, OpRef
from codesign.ir.relay.type_algebra import accepts
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, TupleType, Type, type_text
from codesign.ops.gradual import result_type
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.table import OPERATORS
from tests.support.operator_cases import CASES
from tests.support.operator_draws import Case

REASONS = {
    **dict.fromkeys(
        [name for name in CASES if name.startswith("dyn.")],
        "needs a shape of known length",
    ),
    "gather_nd": "needs shapes that are known",
    "squeeze": "where a length is not known",
}
"""Operators whose number of axes depends on lengths, and what is said."""


def _type(value: Array | tuple[Array, ...]) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(_type, value)))
    return TensorType(value.shape, DType.of(value.dtype))


def _opened(types: tuple[Type, ...], is_open: Callable[[int], bool]) -> tuple[Type, ...]:
    """Return the types with the chosen lengths, counted from the left, unknown."""
    numbers = iter(range(1000))

    def opened(type_: Type) -> Type:
        if isinstance(type_, TupleType):
            return TupleType(tuple(map(opened, type_.fields)))
        assert isinstance(type_, TensorType)
        shape = tuple(UNKNOWN if is_open(next(numbers)) else dim for dim in type_.shape)
        return TensorType(shape, type_.dtype)

    return tuple(map(opened, types))


def _length_count(types: tuple[Type, ...]) -> int:
    found = 0
    for type_ in types:
        fields = type_.fields if isinstance(type_, TupleType) else (type_,)
        found += sum(len(each.shape) for each in fields if isinstance(each, TensorType))
    return found


def _refused_rightly(name: str, error: CodesignError, is_one: bool) -> bool:
    return (not is_one and "needs shapes that are known" in str(error)) or (
        name in REASONS and REASONS[name] in str(error)
    )


def _check(name: str, case: Case, is_one: bool, is_open: Callable[[int], bool]) -> None:
    call, types = Call(OpRef(name), (), case.attrs), tuple(map(_type, case.args))
    wanted = OPERATORS[name].relation(call, types)
    try:
        found = result_type(OPERATORS[name], call, _opened(types, is_open))
    except CodesignError as error:
        if not _refused_rightly(name, error, is_one):
            raise
        return
    assert accepts(found, wanted), f"{type_text(found)} does not accept {type_text(wanted)}"


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_length_may_be_unknown(name: str) -> None:
    for seed in range(2):
        case = CASES[name](np.random.default_rng(seed))
        for index in range(_length_count(tuple(map(_type, case.args)))):
            _check(name, case, True, partial(eq, index))


@pytest.mark.parametrize("name", sorted(CASES))
def test_all_lengths_may_be_unknown(name: str) -> None:
    _check(name, CASES[name](np.random.default_rng(0)), False, lambda number: True)


def _of(*shape: Dim) -> TensorType:
    return TensorType(shape, DType.FLOAT32)


@pytest.mark.parametrize(
    ("name", "attrs", "types", "wanted"),
    [
        ("nn.max_pool2d", Pool2DAttrs(pool_size=(2, 2)), (_of(1, 8, UNKNOWN, 6),),
         (1, 8, UNKNOWN, 5)),
        ("nn.conv2d", Conv2DAttrs(), (_of(UNKNOWN, 3, 9, 9), _of(8, 3, 3, 3)),
         (UNKNOWN, 8, 7, 7)),
        ("nn.conv2d", Conv2DAttrs(), (_of(2, UNKNOWN, 9, 9), _of(8, 3, 3, 3)), (2, 8, 7, 7)),
        ("nn.conv2d", Conv2DAttrs(), (_of(2, 3, UNKNOWN, 9), _of(8, 3, UNKNOWN, 3)),
         (2, 8, UNKNOWN, 7)),
        ("reshape", ReshapeAttrs(shape=(-1, 2)), (_of(UNKNOWN, 6),), (UNKNOWN, 2)),
        ("reshape", ReshapeAttrs(shape=(2, 6)), (_of(UNKNOWN, 4),), (2, 6)),
        ("strided_slice", StridedSliceAttrs(begin=(0,), end=(100,)), (_of(UNKNOWN, 3),),
         (UNKNOWN, 3)),
        ("strided_slice", StridedSliceAttrs(begin=(0,), end=(0,)), (_of(UNKNOWN, 3),), (0, 3)),
        ("nn.bias_add", OPERATORS["nn.bias_add"].attrs(axis=1),  # type: ignore[misc]
         (_of(2, UNKNOWN), _of(7)), (2, 7)),
        ("nn.global_avg_pool2d", None, (_of(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),),
         (UNKNOWN, UNKNOWN, 1, 1)),
    ],
)  # fmt: skip
def test_what_is_known_of_the_result(
    name: str, attrs: object, types: tuple[Type, ...], wanted: tuple[Dim, ...]
) -> None:
    call = Call(OpRef(name), (), attrs)  # type: ignore[arg-type]
    found = result_type(OPERATORS[name], call, types)
    assert isinstance(found, TensorType)
    assert found.shape == wanted


def test_what_no_length_mends_is_refused_with_its_reason() -> None:
    call = Call(OpRef("nn.conv2d"), (), Conv2DAttrs())
    types = (_of(UNKNOWN, 3, 9, 9), _of(8, 4, 3, 3))
    with pytest.raises(CodesignError, match="channels"):
        result_type(OPERATORS["nn.conv2d"], call, types)


def test_a_length_that_does_not_fit_is_refused_where_the_operator_runs() -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %b: Tensor[(?,), float32]) { nn.bias_add(%x, %b) }"""
    module = parse_module(text, "bias.relay")
    infer_types(module)
    x = np.zeros((2, 3), np.float32)
    assert np.shape(Interpreter(module).run(x=x, b=np.zeros(3, np.float32))) == (2, 3)
    with pytest.raises(CodesignError, match=r"(?s)bias of another shape.*bias\.relay:2"):
        Interpreter(module).run(x=x, b=np.zeros(1, np.float32))
