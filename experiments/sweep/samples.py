"""A network of one sample for several at once: its input and its results get a longer first axis.

    fn (%x: Tensor[(1, 3, 8, 8), int8]) { reshape(%x, shape=[1, 192]) }
becomes, for 4 samples,
    fn (%x: Tensor[(4, 3, 8, 8), int8]) { reshape(%x, shape=[4, 192]) }
"""

from __future__ import annotations

from dataclasses import replace

from codesign.compiler.analysis.infer_types import infer_types
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call, Expr, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ir.relay.visit import rewrite
from codesign.ops.reshape import ReshapeAttrs


def with_samples(module: Module, count: int) -> Module:
    """Return a first-order network that runs `count` samples at once.

    Raises
    ------
    CodesignError
        An input or a result has no first axis of length 1, or mixes it with others.
    """
    if count == 1:
        return module
    main = module.main
    params = {param: _longer(param, count) for param in main.params}

    def rule(node: Expr) -> Expr:
        match node:
            case Var():
                return params.get(node, node)
            case Call(attrs=ReshapeAttrs(shape=(1, *rest))):
                return replace(node, attrs=ReshapeAttrs(shape=(count, *rest)))
            case _:
                return node

    body = rewrite(main.body, rule)
    changed = Module({"main": Function(tuple(params.values()), body)})
    result = infer_types(changed)[changed.main.body]
    if any(length != count for length in _first_lengths(result)):
        raise CodesignError.of(
            f"the network does not run {count} samples at once",
            found=f"its result would be {result}",
        )
    return changed


def _longer(param: Var, count: int) -> Var:
    match param.annotation:
        case TensorType(shape=(1, *rest)) as type_:
            return Var(param.name, TensorType((count, *rest), type_.dtype))
        case other:
            raise CodesignError.of(
                f"input {param.name!r} has no axis of samples", found=f"it is {other}"
            )


def _first_lengths(type_: Type) -> list[object]:
    match type_:
        case TupleType(fields=fields):
            return [length for each in fields for length in _first_lengths(each)]
        case TensorType(shape=(first, *_)):
            return [first]
        case _:
            return [None]
