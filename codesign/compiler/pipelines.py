"""The one table of passes, and the order in which they run at each level.

`optimize` leaves operators apart: quantization and both backends start from its result. `fuse`
groups them into Primitive functions for a backend that compiles groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from codesign.compiler.pass_manager import Form, Pass, PassManager
from codesign.compiler.passes.canonicalize_activations import CanonicalizeActivations
from codesign.compiler.passes.canonicalize_cast import CanonicalizeCast
from codesign.compiler.passes.canonicalize_ops import CanonicalizeOps
from codesign.compiler.passes.canonicalize_pooling import CanonicalizePooling
from codesign.compiler.passes.combine_parallel_batch_matmul import CombineParallelBatchMatmul
from codesign.compiler.passes.combine_parallel_conv2d import CombineParallelConv2D
from codesign.compiler.passes.combine_parallel_dense import CombineParallelDense
from codesign.compiler.passes.defuse_ops import DefuseOps
from codesign.compiler.passes.div_to_mul import DivToMul
from codesign.compiler.passes.eliminate_common_subexpr import EliminateCommonSubexpr
from codesign.compiler.passes.eliminate_dead_code import EliminateDeadCode
from codesign.compiler.passes.eta_expand import EtaExpand
from codesign.compiler.passes.fold_constant import FoldConstant
from codesign.compiler.passes.fold_explicit_padding import FoldExplicitPadding
from codesign.compiler.passes.fold_scale_axis import FoldScaleAxis
from codesign.compiler.passes.fuse_ops import FuseOps
from codesign.compiler.passes.inline import Inline
from codesign.compiler.passes.lambda_lift import LambdaLift
from codesign.compiler.passes.partial_evaluate import PartialEvaluate
from codesign.compiler.passes.remove_standalone_reshapes import RemoveStandaloneReshapes
from codesign.compiler.passes.remove_unused_functions import RemoveUnusedFunctions
from codesign.compiler.passes.simplify_expr import SimplifyExpr
from codesign.compiler.passes.simplify_inference import SimplifyInference
from codesign.compiler.passes.to_a_normal_form import ToANormalForm
from codesign.compiler.passes.to_basic_block_normal_form import ToBasicBlockNormalForm
from codesign.compiler.passes.to_graph_normal_form import ToGraphNormalForm
from codesign.ir.relay.module import Module

PASSES: Final[Mapping[str, type[Pass]]] = MappingProxyType(
    {
        each.name: each
        for each in (
            CanonicalizeActivations,
            CanonicalizeCast,
            CanonicalizeOps,
            CanonicalizePooling,
            EliminateCommonSubexpr,
            EliminateDeadCode,
            FoldConstant,
            FoldExplicitPadding,
            FoldScaleAxis,
            CombineParallelBatchMatmul,
            CombineParallelConv2D,
            CombineParallelDense,
            DefuseOps,
            DivToMul,
            FuseOps,
            RemoveStandaloneReshapes,
            SimplifyExpr,
            SimplifyInference,
            RemoveUnusedFunctions,
            PartialEvaluate,
            LambdaLift,
            EtaExpand,
            Inline,
            ToGraphNormalForm,
            ToBasicBlockNormalForm,
            ToANormalForm,
        )
    }
)
"""Every pass by name."""

O0: Final[tuple[Pass, ...]] = (
    SimplifyInference(),  # no backend knows nn.batch_norm
)

O1: Final[tuple[Pass, ...]] = (
    SimplifyInference(),  # first: it leaves products and sums for all that follow
    FoldConstant(),  # weights that are written as arithmetic become constants
    EliminateCommonSubexpr(),  # before matching: two spellings of one value become one node
    SimplifyExpr(),  # equal operands are one node now; what it makes constant is small
    EliminateDeadCode(),
)

O2: Final[tuple[Pass, ...]] = (
    SimplifyInference(),  # first: it leaves products and sums for all that follow
    FoldConstant(),  # weights that are written as arithmetic become constants
    EliminateCommonSubexpr(),  # x * f(x) is recognised by one x
    SimplifyExpr(),  # before matching: fewer spellings of one value
    CanonicalizeActivations(),  # before fold-scale-axis, which would move the 1/6 of a hard swish
    CanonicalizePooling(),  # quantization and accelerator know global pools by name
    FoldExplicitPadding(),  # before fold-scale-axis, which asks whether a convolution pads
    FoldScaleAxis(),  # the products and sums of simplify-inference go into weights
    FoldConstant(),  # what became constant on the way
    EliminateDeadCode(),
)

LEVELS: Final[tuple[tuple[Pass, ...], ...]] = (O0, O1, O2)


def optimize(
    module: Module,
    level: int = 2,
    *,
    verify: bool = False,
    observe: Callable[[int, str, Module], None] | None = None,
) -> Module:
    """Return the module after the passes of a level, 0 to 2; its meaning stays.

    `observe(index, name, module)` sees the module before the first pass and after each.

    Raises
    ------
    ValueError
        There is no such level.
    """
    if level not in range(len(LEVELS)):
        raise ValueError(f"level must be 0 to {len(LEVELS) - 1}, not {level}")
    return PassManager(verify=verify, observe=observe).run(module, LEVELS[level])


def fuse(module: Module) -> Module:
    """Return the module with operators that run as one kernel in Primitive functions."""
    return PassManager().run(module, (FuseOps(),), frozenset({Form.TYPED, Form.INFERENCE}))
