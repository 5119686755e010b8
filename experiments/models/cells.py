"""One step of a recurrent or tree-shaped network: in fp32, in integers, and on the accelerator.

    lstm      (x, h, c) -> (h', c')                    one product with both weights side by side
    gru       (x, h) -> h'
    tree      (left h, right h, left c, right c) -> (c', h')      the binary TreeLSTM's inner node

The last is not written here: it is what batching finds in the recursive program. Rows are
independent samples: words of several sentences, or nodes of one depth of several trees.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Final, final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler import driver
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.batching.cells import Cell
from codesign.compiler.batching.gates import gates_apart
from codesign.compiler.batching.schedule import batch
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization.cell import IntegerCell, Tie, quantize_cell
from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.expr import Call, Constant, OpRef, Tuple, Var
from codesign.ir.relay.literal import CONSTANTS, to_metadata
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.sim.cycle import program_cycles, time_program
from experiments.models import recurrent, tree_lstm
from experiments.models.network import SEED, linear_weights

_LSTM: Final = """
  let %both = concatenate((%x, %h), axis=1);
  let %gates = nn.dense(%both, meta[relay.Constant][0]) + meta[relay.Constant][1];
  let %g = split(%gates, indices_or_sections=4, axis=1);
  let %cell = sigmoid(%g.1) * %c + sigmoid(%g.0) * tanh(%g.2);
  (sigmoid(%g.3) * tanh(%cell), %cell)
"""

_GRU: Final = """
  let %both = concatenate((%x, %h), axis=1);
  let %gates = nn.dense(%both, meta[relay.Constant][0]) + meta[relay.Constant][1];
  let %g = split(%gates, indices_or_sections=2, axis=1);
  let %own = nn.dense(%x, meta[relay.Constant][2]) + meta[relay.Constant][3];
  let %old = nn.dense(%h, meta[relay.Constant][4]) + meta[relay.Constant][5];
  let %new = tanh(%own + sigmoid(%g.0) * %old);
  let %z = sigmoid(%g.1);
  ((1f - %z) * %new + %z * %h,)
"""


@final
@dataclass(frozen=True, kw_only=True)
class CellKind:
    """A step's text, its parameters, and which results become parameters again.

    `params` names what is read; those of `wide` are drawn from the normal distribution, the others
    lie within -1 and 1, as what a gate has let through does.
    """

    params: tuple[str, ...]
    states: tuple[Tie, ...]
    text: str = ""
    wide: frozenset[str] = frozenset()


KINDS: Final[Mapping[str, CellKind]] = MappingProxyType(
    {
        "lstm": CellKind(
            text=_LSTM,
            params=("x", "h", "c"),
            states=(("h", 0), ("c", 1)),
            wide=frozenset({"x"}),
        ),
        "gru": CellKind(text=_GRU, params=("x", "h"), states=(("h", 0),), wide=frozenset({"x"})),
        "tree": CellKind(
            params=("x0", "x1", "x2", "x3"),
            states=(("x0", 1), ("x1", 1), ("x2", 0), ("x3", 0)),
        ),
    }
)


@final
@dataclass(frozen=True, kw_only=True)
class CellSize:
    """Numbers of an input and of a state."""

    inputs: int = recurrent.HIDDEN
    hidden: int = recurrent.HIDDEN


def cell(kind: str, samples: int, size: CellSize | None = None) -> Module:
    """Return a cell in fp32 for a number of rows, with seeded weights, gates apart.

    `size` is that of `lstm` and `gru`, else that of the networks with these names; a `tree` has the
    size of its program.

    Raises
    ------
    CodesignError
        There is no such cell.
    """
    if kind not in KINDS:
        raise CodesignError.of(f"there is no cell {kind!r}", help=f"cells are {', '.join(KINDS)}")
    if kind == "tree":
        return gates_apart(optimize(_inner_node().module(samples)))
    size = size or CellSize()
    widths = {"x": size.inputs}
    params = ", ".join(
        f"%{name}: Tensor[({samples}, {widths.get(name, size.hidden)}), float32]"
        for name in KINDS[kind].params
    )
    table = json.dumps({CONSTANTS: [to_metadata(each) for each in _constants(kind, size)]})
    text = KINDS[kind].text
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{{text}}}\n#[metadata]\n{table}\n'
    return gates_apart(optimize(parse_module(text, f"{kind}.relay")))


def _inner_node() -> Cell:
    """Return what the binary TreeLSTM computes where two halves meet."""
    module = tree_lstm.binary(tree_lstm.binary_weights())
    phrase = tree_lstm.binary_value(((0, 1), 2))
    halves = {"phrase": phrase, "words": tree_lstm.word_vectors(3, SEED)}
    params = len(KINDS["tree"].params)
    return next(each for each in batch(module, [halves]).cells if len(each.params) == params)


def _constants(kind: str, size: CellSize) -> tuple[Array, ...]:
    """Return weights and biases as the text numbers them: an input's and a state's side by side."""
    n, h = size.inputs, size.hidden
    gates = recurrent.GATES[kind]
    made = linear_weights({"wi": (gates * h, n, True), "wh": (gates * h, h, True)})
    rows = slice(None) if kind == "lstm" else slice(2 * h)
    joint = np.concatenate([made["wi.weight"][rows], made["wh.weight"][rows]], axis=1)
    both = (joint, made["wi.bias"][rows] + made["wh.bias"][rows])
    if kind == "lstm":
        return both
    alone = ("wi.weight", "wi.bias", "wh.weight", "wh.bias")
    return (*both, *(made[name][2 * h :] for name in alone))


def cell_inputs(
    kind: str, samples: int, count: int, size: CellSize | None = None
) -> Iterator[dict[str, Array]]:
    """Yield `count` seeded inputs of a cell by name."""
    params = cell(kind, samples, size).main.params
    for seed in range(count):
        random = np.random.default_rng((SEED, seed))
        yield {
            param.name: _numbers(random, _shape(param), wide=param.name in KINDS[kind].wide)
            for param in params
        }


def _shape(param: Var) -> tuple[int, ...]:
    assert isinstance(param.annotation, TensorType), "a cell takes tensors"
    return param.annotation.static_shape


def _numbers(random: np.random.Generator, shape: tuple[int, ...], *, wide: bool) -> Array:
    drawn = random.standard_normal(shape) if wide else random.uniform(-1, 1, shape)
    return drawn.astype(np.float32)


@cache
def integer_cell(kind: str, samples: int, size: CellSize | None = None) -> IntegerCell:
    """Return a cell from codes to codes, quantized with seeded inputs."""
    return quantize_cell(
        cell(kind, samples, size),
        cell_inputs(kind, samples, 8, size),
        states=KINDS[kind].states,
        config=QuantizationConfig(method=RangeMethod.MINMAX, compensate=False),
    )


def cell_on_accelerator(
    kind: str, samples: int, config: AccelConfig, size: CellSize | None = None
) -> Executable:
    """Compile a cell for an accelerator.

    Raises
    ------
    CodesignError
        The configuration cannot hold the cell.
    """
    made = integer_cell(kind, samples, size)
    return driver.compile(made, target="accel", config=config, tuning=Tuning(program_cycles))


def cell_cycles(kind: str, samples: int, config: AccelConfig, size: CellSize | None = None) -> int:
    """Return the cycles of one step over `samples` rows, weights coming from DRAM."""
    steps = cell_on_accelerator(kind, samples, config, size).accel_steps
    return sum(time_program(step.kernel.program, config).cycles for step in steps)


def cycles_per_sample(kind: str, samples: int, config: AccelConfig) -> float:
    """Return cycles for each row of a step over `samples` rows, 1 to 16 and more."""
    return cell_cycles(kind, samples, config) / samples


def cell_bytes(kind: str, samples: int, size: CellSize | None = None) -> int:
    """Return the bytes that a step has to move at least: each once, without padding.

    One byte for each weight, eight for what requantizes a channel, one for each element of
    parameters and results. Tables and instructions are not counted.
    """
    module = cell(kind, samples, size)
    types = infer_types(module)
    constants = sum(rows * columns + 8 * rows for rows, columns in _weights(module))
    assert isinstance(module.main.body, Tuple), "a cell gives a tuple"
    tensors = (*module.main.params, *module.main.body.fields)
    shapes = (
        type_.static_shape for each in tensors if isinstance(type_ := types[each], TensorType)
    )
    return constants + sum(map(prod, shapes))


def cell_macs(kind: str, samples: int, size: CellSize | None = None) -> int:
    """Return the multiply-accumulates of a step."""
    return samples * sum(map(prod, _weights(cell(kind, samples, size))))


def _weights(module: Module) -> Iterator[tuple[int, int]]:
    for node in post_order(module.main.body):
        match node:
            case Call(callee=OpRef(name="nn.dense"), args=(_, Constant(value=weight))):
                yield weight.shape[0], weight.shape[1]
            case _:
                pass
