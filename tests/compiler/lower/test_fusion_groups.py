"""Which steps are fused, and that memory is shared between tensors whose lives do not meet."""

from __future__ import annotations

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.lower.anchors import ANCHORS
from codesign.compiler.lower.graph import graph_of
from codesign.compiler.lower.group import fuse
from codesign.compiler.lower.lower import lower
from codesign.compiler.lower.plan_memory import plan_memory
from codesign.compiler.lower.program import Home, Launch, Place, Program
from codesign.compiler.schedule.machine import Machine
from codesign.compiler.schedule.tiles import Reduction, choose_tile, split_evenly
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.tensor.kernel import LoopKernel
from codesign.ops.nn.conv2d import Conv2DAttrs
from tests.support.cpu import variables


def _op(name: str, *args: Expr) -> Call:
    return Call(OpRef(name), args)


def _groups(body: Expr, params: tuple[Var, ...]) -> list[list[str]]:
    function = Function(params, body)
    graph = graph_of(function, infer_types(Module({"main": function})))
    return [[step.operator for step in group.steps] for group in fuse(graph, ANCHORS)]


def _conv(x: Expr) -> Call:
    weight = Constant(np.ones((8, 8, 3, 3), np.float32))
    return Call(OpRef("nn.conv2d"), (x, weight), Conv2DAttrs(padding=(1, 1, 1, 1)))


IMAGE = np.zeros((1, 8, 6, 6), np.float32)


def test_a_diamond_joins_its_convolution() -> None:
    (x,) = params = variables(IMAGE)
    y = _conv(x)
    gated = _op("multiply", y, _op("sigmoid", y))
    assert _groups(gated, params) == [["nn.conv2d", "sigmoid", "multiply"]]


def test_a_residual_joins_the_later_convolution() -> None:
    (x,) = params = variables(IMAGE)
    y = _conv(x)
    z = _op("add", _conv(y), y)
    assert _groups(z, params) == [["nn.conv2d"], ["nn.conv2d", "add"]]


def test_a_tensor_that_others_read_ends_its_group() -> None:
    (x,) = params = variables(IMAGE)
    y = _op("nn.relu", _conv(x))
    body = _op("add", _op("nn.global_avg_pool2d", y), _op("exp", y))
    assert _groups(body, params) == [
        ["nn.conv2d", "nn.relu"],
        ["nn.global_avg_pool2d"],
        ["exp", "add"],
    ]


def test_networks_stay_in_blocks_between_convolutions() -> None:
    (x,) = params = variables(IMAGE)
    function = Function(params, _conv(_op("nn.relu", _conv(x))))
    graph = graph_of(function, infer_types(Module({"main": function})))
    labels = [launch.label for launch in lower(graph, Machine(8, 16)).launches]
    copies = [label for label in labels if label == "copy"]
    assert len(copies) == 2, "one on the way in, one on the way out"


def _place(size: int) -> Place:
    return Place(Home.WORKSPACE, size)


def test_places_share_bytes_only_when_their_lives_do_not_meet() -> None:
    a, b, c = _place(100), _place(100), _place(100)
    nothing = LoopKernel((), ())
    launches = tuple(Launch(nothing, places, "") for places in ((a,), (a, b), (b, c)))
    plan = plan_memory(Program(launches), alignment=64, slack_bytes=28)
    assert plan.offsets[a] == plan.offsets[c]
    assert abs(plan.offsets[a] - plan.offsets[b]) >= 128
    assert plan.size_bytes == 256


def test_tiles_fit_the_registers() -> None:
    for pixels in (1, 7, 14, 56):
        for vectors in (1, 2, 8, 32):
            for is_integer in (False, True):
                tile = choose_tile(pixels, vectors, 16, Reduction(576, is_integer, 32))
                assert tile.pixels * tile.vectors + 1 <= 16
                assert tile.pixels <= pixels
                assert tile.vectors <= vectors


def test_even_pieces_cover_the_length() -> None:
    for total in range(1, 40):
        for most in range(1, 9):
            parts = split_evenly(total, most)
            assert sum(count * size for count, size in parts) == total
            assert max(size for _, size in parts) <= most
