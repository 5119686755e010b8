"""Which launches wait for which: values, shared memory, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.compile import compile_gpu, named_kernels, planned
from codesign.compiler.backends.gpu.device import DEVICES
from codesign.compiler.backends.gpu.lower import lower
from codesign.compiler.backends.gpu.order import closed, reduced
from codesign.compiler.backends.gpu.program import GpuLaunch, GpuProgram
from codesign.compiler.lower.graph import graph_of
from codesign.compiler.lower.program import Home, Place
from codesign.dtypes import DType
from codesign.ir.executable.gpu_kernel import KernelLaunch
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.simt.kernel import CopyAsync, SimtKernel, Store, When
from codesign.ir.simt.touched import read_by, written_by
from codesign.ir.tensor.compute import Load
from codesign.ir.tensor.index import Axis, at, constant, element
from codesign.ir.tensor.layout import Buffer
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.table import call
from experiments.gpu.side_by_side import counted

_DEVICE = DEVICES["sm_90"]
_RNG = np.random.default_rng(0)


def _constant(*shape: int) -> Constant:
    return Constant(_RNG.standard_normal(shape).astype(np.float32))


def _launches(function: Function) -> tuple[KernelLaunch, ...]:
    return compile_gpu(function, infer_types(Module({"main": function})), _DEVICE).launches


def _orders(function: Function) -> list[tuple[str, tuple[int, ...]]]:
    return [(launch.label, launch.after) for launch in _launches(function)]


def _conv(x: Expr, before: int, after: int, window: int) -> Call:
    attrs = Conv2DAttrs(padding=(window // 2,) * 4)
    return call("nn.conv2d", x, _constant(after, before, window, window), attrs=attrs)


def test_query_key_and_value_wait_for_nothing() -> None:
    x = Var("x", TensorType((2, 32, 64), DType.FLOAT32))
    query, key, value = (call("nn.dense", x, _constant(64, 64)) for _ in range(3))
    shares = call("nn.softmax", call("nn.batch_matmul", query, key))
    function = Function((x,), call("nn.matmul", shares, value))
    assert _orders(function) == [
        ("nn.dense", ()),
        ("nn.dense", ()),
        ("nn.dense", ()),
        ("attention", (0, 1, 2)),
    ]


def test_the_short_way_of_a_residual_runs_beside_the_long_one() -> None:
    x = Var("x", TensorType((1, 16, 8, 8), DType.FLOAT32))
    long = _conv(call("nn.relu", _conv(x, 16, 32, 3)), 32, 32, 3)
    function = Function((x,), call("add", long, _conv(x, 16, 32, 1)))
    assert [after for _, after in _orders(function)] == [(), (), (0, 1)]


def test_branches_wait_for_each_other_where_they_are_joined_only() -> None:
    """Four branches over one image; the parts of their concatenation lie beside each other."""
    x = Var("x", TensorType((1, 16, 8, 8), DType.FLOAT32))
    image = call("nn.relu", x)
    widths = (8, 16, 24, 32)
    branches = tuple(_conv(image, 16, width, 3) for width in widths)
    whole = call("concatenate", Tuple(branches), attrs=AxisAttrs(axis=1))
    found = _orders(Function((x,), _conv(whole, sum(widths), 16, 1)))
    first, *rest = (after for _, after in found)
    assert first == ()
    assert rest[:4] == [(0,)] * 4
    assert rest[4:8] == [(1,), (2,), (3,), (4,)]
    assert rest[8] == (5, 6, 7, 8)


def _chains(count: int, width: int) -> Function:
    """Chains of a wide hidden layer each, of which none reads another."""
    x = Var("x", TensorType((64, 64), DType.FLOAT32))
    hidden = [call("nn.dense", x, _constant(width, 64)) for _ in range(count)]
    ends = tuple(call("nn.dense", each, _constant(8, width)) for each in hidden)
    return Function((x,), Tuple(ends))


def test_memory_is_spent_on_launches_that_run_side_by_side() -> None:
    function = _chains(2, 512)
    graph = graph_of(function, infer_types(Module({"main": function})))
    plan, after = planned(lower(graph, _DEVICE))
    assert plan.size_bytes >= 2 * 64 * 512 * 4
    starts = [number for number, earlier in enumerate(after) if not earlier]
    assert len(starts) == 2


def _program(*launches: tuple[tuple[Place, ...], Place]) -> GpuProgram:
    """Launches of one kernel each that reads some places and writes one."""
    thread = Axis("thread", 1)
    made = []
    for sources, target in launches:
        *origins, end = (
            Buffer(f"operand{number}", (each.size_bytes,), DType.INT8)
            for number, each in enumerate((*sources, target))
        )
        body = tuple(Store(end, (at(thread),), Load(each, (at(thread),))) for each in origins)
        kernel = SimtKernel((*origins, end), Axis("block", 1), thread, body)
        made.append(GpuLaunch(kernel, (*sources, target), ""))
    return GpuProgram(tuple(made))


def test_where_memory_would_grow_too_much_launches_wait_for_it() -> None:
    """Five chains over 16 MiB each: beside each other they need five times the memory."""
    size = 1 << 24
    x = Place(Home.INPUT, size)
    hidden = [Place(Home.WORKSPACE, size) for _ in range(5)]
    ends = [Place(Home.OUTPUT, size, number) for number in range(5)]
    launches: list[tuple[tuple[Place, ...], Place]] = []
    for middle, end in zip(hidden, ends, strict=True):
        launches += [((x,), middle), ((middle,), end)]
    plan, after = planned(_program(*launches))
    assert plan.size_bytes == size
    assert after == [(), (0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,), (8,)]
    plan, after = planned(_program(*launches[:8]))
    assert plan.size_bytes == 4 * size
    assert after == [(), (0,), (), (2,), (), (4,), (), (6,)]


def test_only_the_least_is_followed() -> None:
    """0 and 1 begin, 2 follows 0, 3 follows both and 2, 4 all that is left."""
    followed = [0b0, 0b0, 0b1, 0b111, 0b1111]
    assert reduced(followed) == [(), (), (0,), (1, 2), (3,)]
    assert closed(followed) == [0b0, 0b0, 0b1, 0b111, 0b1111]


def test_what_a_kernel_touches() -> None:
    """Places that are read, values, copies and conditions; a block's own memory is none of it."""
    names = ("places", "values", "copied", "tested", "idle", "target")
    places, values, copied, tested, idle, target = (Buffer(n, (8,), DType.INT32) for n in names)
    own = Buffer("own", (8,), DType.INT32)
    thread = Axis("thread", 8)
    here = (at(thread),)
    place = element(Load(places, here), (thread,))
    test = element(Load(tested, here), (thread,))
    body = (
        CopyAsync(own, (constant(0),), copied, (constant(0),), 4),
        When(((test, 0, 8),), (Store(target, here, Load(values, (place,))),)),
    )
    operands = (places, values, copied, tested, idle, target)
    kernel = SimtKernel(operands, Axis("block", 1), thread, body, shared=(own,))
    assert read_by(kernel) == {places, values, copied, tested}
    assert written_by(kernel) == {target}


def test_kernels_that_differ_in_their_operands_alone_are_two() -> None:
    x, y, z = (Place(Home.INPUT, size, number) for number, size in enumerate((8, 8, 16)))
    ends = [Place(Home.OUTPUT, 8, number) for number in range(3)]
    program = _program(((x,), ends[0]), ((y,), ends[1]), ((z,), ends[2]))
    assert len(named_kernels(program)) == 2


@pytest.mark.parametrize("is_added", [False, True])
def test_a_product_in_parts_takes_its_factors_only(is_added: bool) -> None:
    """What is added to the sum is read by the launch that joins the parts."""
    x = Var("x", TensorType((8, 8192), DType.FLOAT32))
    bias = Var("bias", TensorType((8, 16), DType.FLOAT32))
    product = call("nn.dense", x, _constant(16, 8192))
    body = call("add", product, call("exp", bias)) if is_added else product
    parts, joined = [each for each in _launches(Function((x, bias), body)) if "dense" in each.label]
    assert len(parts.operands) == 3
    assert parts.after == ()
    assert len(joined.operands) == (3 if is_added else 2)


def test_the_timed_networks_are_counted() -> None:
    """One input, two that read it, and one that reads both: the two are beside each other."""
    x, end = Place(Home.INPUT, 512), Place(Home.OUTPUT, 512)
    first, left, right = (Place(Home.WORKSPACE, 512) for _ in range(3))
    program = _program(((x,), first), ((first,), left), ((first,), right), ((left, right), end))
    found = counted(program)
    assert (found.launches, found.chain, found.with_another) == (4, 3, 2)
    assert found.workspace_bytes == found.least_bytes == 3 * 512
