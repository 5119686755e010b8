"""One step of a recurrent or tree-shaped network: in fp32, in integers, and on the accelerator.

    lstm      (x, h, c) -> (h', c')                    one product with both weights side by side
    gru       (x, h) -> h'
    tree      (left h, right h, left c, right c) -> (h', c')      the binary TreeLSTM's inner node

Rows are independent samples: words of several sentences, or nodes of one depth of several trees.
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
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.batching.gates import gates_apart
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization.cell import IntegerCell, Tie, quantize_cell
from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.literal import CONSTANTS, to_metadata
from codesign.ir.relay.module import Module
from codesign.sim.cycle import program_cycles, time_program
from experiments.models import recurrent, tree_lstm
from experiments.models.network import SEED, Weights, linear_weights

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

_TREE: Final = """
  let %both = concatenate((%lh, %rh), axis=1);
  let %gates = nn.dense(%both, meta[relay.Constant][0]) + meta[relay.Constant][1];
  let %g = split(%gates, indices_or_sections=5, axis=1);
  let %new = sigmoid(%g.0) * tanh(%g.4);
  let %cell = %new + sigmoid(%g.1) * %lc + sigmoid(%g.2) * %rc;
  (sigmoid(%g.3) * tanh(%cell), %cell)
"""


@final
@dataclass(frozen=True, kw_only=True)
class CellKind:
    """A step's text, its parameters and their ranges, and which results become parameters again.

    `params` names what is read; those of `wide` are drawn from the normal distribution, the others
    lie within -1 and 1, as what a gate has let through does.
    """

    text: str
    params: tuple[str, ...]
    states: tuple[Tie, ...]
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
            text=_TREE,
            params=("lh", "rh", "lc", "rc"),
            states=(("lh", 0), ("rh", 0), ("lc", 1), ("rc", 1)),
        ),
    }
)


@final
@dataclass(frozen=True, kw_only=True)
class CellSize:
    """Numbers of an input `x` and of a state."""

    inputs: int
    hidden: int

    def of(self, param: str) -> int:
        """Return how many numbers a parameter has in each row."""
        return self.inputs if param == "x" else self.hidden


SIZES: Final[Mapping[str, CellSize]] = MappingProxyType(
    {
        "lstm": CellSize(inputs=recurrent.HIDDEN, hidden=recurrent.HIDDEN),
        "gru": CellSize(inputs=recurrent.HIDDEN, hidden=recurrent.HIDDEN),
        "tree": CellSize(inputs=0, hidden=tree_lstm.HIDDEN),
    }
)
"""The sizes of the networks beside which these cells stand."""


def cell(kind: str, samples: int, size: CellSize | None = None) -> Module:
    """Return a cell in fp32 for a number of rows, with seeded weights, gates apart.

    Raises
    ------
    CodesignError
        There is no such cell.
    """
    if kind not in KINDS:
        raise CodesignError.of(f"there is no cell {kind!r}", help=f"cells are {', '.join(KINDS)}")
    size = size or SIZES[kind]
    form = KINDS[kind]
    params = ", ".join(
        f"%{name}: Tensor[({samples}, {size.of(name)}), float32]" for name in form.params
    )
    table = json.dumps({CONSTANTS: [to_metadata(each) for each in _constants(kind, size)]})
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{{form.text}}}\n#[metadata]\n{table}\n'
    return gates_apart(optimize(parse_module(text, f"{kind}.relay")))


def _constants(kind: str, size: CellSize) -> tuple[Array, ...]:
    """Return weights and biases as the text numbers them."""
    n, h = size.inputs, size.hidden
    match kind:
        case "lstm":
            weights = linear_weights({"wi": (4 * h, n, True), "wh": (4 * h, h, True)})
            return _side_by_side(weights, "wi", "wh", slice(None))
        case "gru":
            weights = linear_weights({"wi": (3 * h, n, True), "wh": (3 * h, h, True)})
            new = slice(2 * h, None)
            return (
                *_side_by_side(weights, "wi", "wh", slice(2 * h)),
                *(weights[f"wi.{part}"][new] for part in ("weight", "bias")),
                *(weights[f"wh.{part}"][new] for part in ("weight", "bias")),
            )
        case _:
            weights = linear_weights({"L": (5 * h, h, True), "R": (5 * h, h, True)})
            return _side_by_side(weights, "L", "R", slice(None))


def _side_by_side(weights: Weights, left: str, right: str, rows: slice) -> tuple[Array, Array]:
    both = [weights[f"{each}.weight"][rows] for each in (left, right)]
    biases = [weights[f"{each}.bias"][rows] for each in (left, right)]
    return np.concatenate(both, axis=1), biases[0] + biases[1]


def cell_inputs(
    kind: str, samples: int, count: int, size: CellSize | None = None
) -> Iterator[dict[str, Array]]:
    """Yield `count` seeded inputs of a cell by name."""
    size = size or SIZES[kind]
    for seed in range(count):
        random = np.random.default_rng((SEED, seed))
        yield {
            name: _numbers(random, (samples, size.of(name)), wide=name in KINDS[kind].wide)
            for name in KINDS[kind].params
        }


def _numbers(random: np.random.Generator, shape: tuple[int, int], *, wide: bool) -> Array:
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
    size = size or SIZES[kind]
    weights, *biases = (each.shape for each in _constants(kind, size))
    counted = [weights, *biases]
    constants = sum(prod(shape) if len(shape) == 2 else 8 * shape[0] for shape in counted)
    results = len(KINDS[kind].states) if kind != "tree" else 2
    rows = sum(size.of(name) for name in KINDS[kind].params) + results * size.hidden
    return constants + samples * rows


def cell_macs(kind: str, samples: int, size: CellSize | None = None) -> int:
    """Return the multiply-accumulates of a step."""
    size = size or SIZES[kind]
    products = [each.size for each in _constants(kind, size) if each.ndim == 2]
    return samples * sum(products)
