"""A product that is taken apart at once becomes one product for each part.

    let %g = split(nn.dense(%x, w) + b, indices_or_sections=2, axis=1);
    (sigmoid(%g.0), tanh(%g.1))
becomes
    (sigmoid(nn.bias_add(nn.dense(%x, w0), b0)), tanh(nn.bias_add(nn.dense(%x, w1), b1)))

where w0 and w1 are the rows of w. The host's kernels gain by one large product; the accelerator
reads every row of a weight once either way, and each gate is then a tensor of whole tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Project
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import rewrite
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.split import SplitAttrs


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A product of rows with a weight, and what is added to each row."""

    dense: Call
    weight: Array
    bias: Array | None


def gates_apart(module: Module) -> Module:
    """Return the module, the result of optimize(), with such products in `main` taken apart."""
    parts: dict[tuple[Expr, int], Expr] = {}

    def rule(node: Expr) -> Expr:
        match node:
            case Project(value=Call(attrs=SplitAttrs() as attrs, args=(data,)) as whole, index=i):
                product = _product(data)
                if product is None:
                    return node
                if (whole, i) not in parts:
                    parts[whole, i] = _part(product, attrs, i)
                return parts[whole, i]
            case Call(callee=OpRef(name="add")) if (alone := _product(node)) is not None:
                return _with_bias(alone.dense, alone.bias, node)
            case _:
                return node

    main = rewrite(module.main, rule)
    assert isinstance(main, Function), "a function stays a function"
    return module if main is module.main else module.with_main(main)


def _product(data: Expr) -> _Product | None:
    match data:
        case Call(callee=OpRef(name="nn.dense"), args=(_, Constant(value=weight))):
            return _Product(data, weight, None)
        case Call(callee=OpRef(name="add" | "nn.bias_add"), args=(lhs, rhs)):
            inner, bias = (lhs, rhs) if isinstance(rhs, Constant) else (rhs, lhs)
            product = _product(inner)
            if product is None or product.bias is not None or not isinstance(bias, Constant):
                return None
            if bias.value.size != len(product.weight) or bias.value.shape[-1] != bias.value.size:
                return None
            return replace(product, bias=bias.value.reshape(-1))
        case _:
            return None


def _part(product: _Product, attrs: SplitAttrs, index: int) -> Expr:
    rows = len(product.weight)
    where = attrs.indices_or_sections
    begins = tuple(np.arange(0, rows, rows // where)) if isinstance(where, int) else (0, *where)
    begin, end = list(pairwise((*begins, rows)))[index]
    dense = product.dense
    weight = Constant(np.ascontiguousarray(product.weight[begin:end]), dense.args[1].span)
    bias = None if product.bias is None else product.bias[begin:end]
    return _with_bias(replace(dense, args=(dense.args[0], weight)), bias, dense)


def _with_bias(dense: Call, bias: Array | None, origin: Call) -> Expr:
    if bias is None:
        return dense
    constant = Constant(np.ascontiguousarray(bias), origin.span)
    attrs = BiasAddAttrs(axis=-1)
    return Call(OpRef("nn.bias_add", origin.span), (dense, constant), attrs, origin.span)
