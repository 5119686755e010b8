"""What has no gradient is refused, with its place and a way out."""

from __future__ import annotations

import pytest

from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.gradient import Mode, gradient
from codesign.diagnostics import CodesignError
from tests.support.gradient_programs import HEADER, module_of

BOTH = pytest.mark.parametrize("mode", ["first_order", "higher_order"])


def refused(text: str, mode: Mode = "higher_order") -> str:
    with pytest.raises(CodesignError) as caught:
        gradient("main", module_of(text), mode=mode)
    return str(caught.value)


def test_a_parameter_that_is_a_function() -> None:
    said = refused("def @main(%f: fn (float32) -> float32, %x: float32) { %f(%x) }")
    assert "parameter %f of @main has a function in it" in said
    assert "def @main(%f" in said


def test_a_result_that_is_a_function() -> None:
    said = refused("def @main(%x: float32) { fn (%y: float32) -> float32 { %x * %y } }")
    assert "the result of @main has a function in it" in said


def test_a_function_inside_a_data_type() -> None:
    said = refused(
        """
        type Layer { Layer(fn (float32) -> float32) }
        def @main(%l: List[Layer], %x: float32) -> float32 { %x }
        """
    )
    assert "parameter %l of @main has a function in it" in said


def test_cells_at_the_border_all_together() -> None:
    said = refused("def @main(%x: ref(float32), %y: float32) { ref(%y) }")
    assert "parameter %x of @main has a cell in it" in said
    assert "the result of @main has a cell in it" in said


@BOTH
def test_a_result_without_numbers(mode: Mode) -> None:
    said = refused("def @main(%x: int32) { %x + 1 }", mode)
    assert "the result of @main has no floating-point tensor to differentiate" in said
    assert "found int32" in said


@BOTH
def test_type_parameters(mode: Mode) -> None:
    said = refused("def @main[A](%x: A, %y: float32) -> float32 { %y }", mode)
    assert "@main has type parameters" in said


@BOTH
def test_names_that_are_not_there(mode: Mode) -> None:
    module = module_of("def @main(%x: float32) { %x }")
    with pytest.raises(CodesignError, match="no function is named @other"):
        gradient("other", module, mode=mode)
    with pytest.raises(CodesignError, match="@main has no parameter named y"):
        gradient("main", module, mode=mode, parameters=["y"])
    two = module_of("def @f(%x: float32) { %x } def @main(%x: float32) { @f(%x) }")
    with pytest.raises(CodesignError, match="has a function @f already"):
        gradient("main", two, mode=mode, name="f")
    with pytest.raises(CodesignError, match="@f cannot give its name"):
        gradient("f", two, mode=mode, name="f")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if (%b) { %x } else { %x * %x }", "found if"),
        ("ref_read(ref(%x))", "found ref"),
        ("match (Some(%x)) { Some(%y) => %y, None => %x }", "found constructor Some"),
        ("@id(@loop(%x))", "found a function that calls itself"),
    ],
)
def test_first_order_names_what_is_no_graph_and_where(body: str, found: str) -> None:
    said = refused(
        f"""
        def @loop(%x: float32) -> float32 {{ @loop(%x) }}
        def @main(%x: float32, %b: bool) -> float32 {{ {body} }}
        """,
        "first_order",
    )
    assert found in said
    assert "-->" in said
    assert 'mode "higher_order"' in said


@BOTH
def test_the_way_through_an_operator_without_gradient(mode: Mode) -> None:
    """A gradient that needs a shape which is not known says so, at the call."""
    said = refused(
        """
        def @main(%x: Tensor[(3,), float32], %i: Tensor[(?, 2), int32]) {
          take(%x, %i, axis=0)
        }
        """,
        mode,
    )
    assert "the gradient of take needs shapes that are known" in said
    assert "take(%x, %i" in said


@BOTH
def test_a_module_with_type_errors_reports_them(mode: Mode) -> None:
    module = parse_module(HEADER + "def @main(%x: float32) { %x + 1 }")
    with pytest.raises(CodesignError, match="add takes one element type"):
        gradient("main", module, mode=mode)


def test_an_unknown_mode() -> None:
    module = module_of("def @main(%x: float32) { %x }")
    with pytest.raises(
        ValueError, match=r"^mode must be first_order or higher_order, not 'zeroth'$"
    ):
        gradient("main", module, mode="zeroth")  # type: ignore[arg-type]
