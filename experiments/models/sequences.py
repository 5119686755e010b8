"""Whole sequences on the accelerator: a step in integers, as often as the sequence is long.

The state goes from step to step as codes. Weights, params and tables stay on chip from the first
step on where they fit (`weights_stay`); where they do not, each step brings them anew.
"""

from __future__ import annotations

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Load
from codesign.compiler import driver
from codesign.compiler.backends.accel.search import Tuning
from codesign.diagnostics import CodesignError
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.expr import Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import substitute
from codesign.sim.cycle import program_cycles
from experiments.models.cells import KINDS, CellSize, integer_cell


def sequence(kind: str, steps: int, samples: int, size: CellSize | None = None) -> Module:
    """Return `steps` steps of a cell: from `x0`, `x1`, … and first states to every step's `h`.

    The last state of each kind follows. All are codes, as `integer_cell` gives them.

    Raises
    ------
    CodesignError
        The cell reads no `x`: it is no step of a sequence.
    """
    if "x" not in KINDS[kind].params:
        raise CodesignError.of(f"{kind} is no step of a sequence", found="it reads no input x")
    main = integer_cell(kind, samples, size).module.main
    assert isinstance(main.body, Tuple), "a cell gives a tuple"
    params = {param.name: param for param in main.params}
    inputs = [Var(f"x{step}", params["x"].annotation) for step in range(steps)]
    first = {name: Var(name, params[name].annotation) for name, _ in KINDS[kind].states}
    state: dict[str, Expr] = dict(first)
    given: list[Expr] = []
    for x in inputs:
        values: dict[Var, Expr] = {params[name]: value for name, value in state.items()}
        body = substitute(main.body, {**values, params["x"]: x})
        assert isinstance(body, Tuple), "a tuple stays one"
        given.append(body.fields[0])
        state = {name: body.fields[index] for name, index in KINDS[kind].states}
    results = Tuple((*given, *state.values()))
    return Module({"main": Function((*inputs, *first.values()), results)})


def sequence_on_accelerator(
    kind: str, steps: int, samples: int, config: AccelConfig, size: CellSize | None = None
) -> Executable:
    """Compile a sequence for an accelerator.

    Raises
    ------
    CodesignError
        The configuration cannot hold a step.
    """
    module = sequence(kind, steps, samples, size)
    return driver.compile(module, target="accel", config=config, tuning=Tuning(program_cycles))


def weights_stay(executable: Executable) -> bool:
    """Whether no weight of a sequence is loaded twice."""
    seen: set[tuple[int, tuple[int, int, int]]] = set()
    for step in executable.accel_steps:
        for instruction in step.kernel.program.instructions:
            match instruction:
                case Load(memory=Memory.WGT, address=address, size=size):
                    if (address, size) in seen:
                        return False
                    seen.add((address, size))
                case _:
                    pass
    return True
