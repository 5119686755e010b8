"""The one table of passes, and the order in which they run at each level.

`optimize` leaves operators apart: quantization and both backends start from its result. `fuse`
groups them into Primitive functions for a backend that compiles groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from codesign.compiler.pass_manager import Form, Pass, PassManager
from codesign.compiler.passes.alter_op_layout import AlterOpLayout
from codesign.compiler.passes.canonicalize_activations import CanonicalizeActivations
from codesign.compiler.passes.canonicalize_cast import CanonicalizeCast
from codesign.compiler.passes.canonicalize_ops import CanonicalizeOps
from codesign.compiler.passes.canonicalize_pooling import CanonicalizePooling
from codesign.compiler.passes.combine_parallel_batch_matmul import CombineParallelBatchMatmul
from codesign.compiler.passes.combine_parallel_conv2d import CombineParallelConv2D
from codesign.compiler.passes.combine_parallel_dense import CombineParallelDense
from codesign.compiler.passes.convert_layout import ConvertLayout
from codesign.compiler.passes.defunctionalize import Defunctionalize
from codesign.compiler.passes.defuse_ops import DefuseOps
from codesign.compiler.passes.div_to_mul import DivToMul
from codesign.compiler.passes.dynamic_to_static import DynamicToStatic
from codesign.compiler.passes.eliminate_common_subexpr import EliminateCommonSubexpr
from codesign.compiler.passes.eliminate_dead_code import EliminateDeadCode
from codesign.compiler.passes.eta_expand import EtaExpand
from codesign.compiler.passes.expand_operators import ExpandOperators
from codesign.compiler.passes.fast_math import FastMath
from codesign.compiler.passes.fold_constant import FoldConstant
from codesign.compiler.passes.fold_explicit_padding import FoldExplicitPadding
from codesign.compiler.passes.fold_scale_axis import FoldScaleAxis
from codesign.compiler.passes.fuse_ops import FuseOps
from codesign.compiler.passes.inline import Inline
from codesign.compiler.passes.lambda_lift import LambdaLift
from codesign.compiler.passes.lazy_gradient_init import LazyGradientInit
from codesign.compiler.passes.partial_evaluate import PartialEvaluate
from codesign.compiler.passes.remove_standalone_reshapes import RemoveStandaloneReshapes
from codesign.compiler.passes.remove_unused_functions import RemoveUnusedFunctions
from codesign.compiler.passes.simplify_expr import SimplifyExpr
from codesign.compiler.passes.simplify_inference import SimplifyInference
from codesign.compiler.passes.to_a_normal_form import ToANormalForm
from codesign.compiler.passes.to_basic_block_normal_form import ToBasicBlockNormalForm
from codesign.compiler.passes.to_cps import ToCPS
from codesign.compiler.passes.to_graph_normal_form import ToGraphNormalForm
from codesign.compiler.passes.to_mixed_precision import ToMixedPrecision
from codesign.compiler.passes.un_cps import UnCPS
from codesign.compiler.pipeline_text import parse_pipeline
from codesign.ir.relay.module import Module

PASSES: Final[Mapping[str, type[Pass]]] = MappingProxyType(
    {
        each.name: each
        for each in (
            AlterOpLayout,
            CanonicalizeActivations,
            CanonicalizeCast,
            CanonicalizeOps,
            CanonicalizePooling,
            EliminateCommonSubexpr,
            EliminateDeadCode,
            ExpandOperators,
            FastMath,
            FoldConstant,
            FoldExplicitPadding,
            FoldScaleAxis,
            CombineParallelBatchMatmul,
            CombineParallelConv2D,
            CombineParallelDense,
            ConvertLayout,
            DefuseOps,
            DivToMul,
            DynamicToStatic,
            FuseOps,
            RemoveStandaloneReshapes,
            SimplifyExpr,
            SimplifyInference,
            ToMixedPrecision,
            RemoveUnusedFunctions,
            LazyGradientInit,
            UnCPS,
            ToCPS,
            Defunctionalize,
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

IN_PLAIN_LAYOUT: Final = ConvertLayout(conv2d="NCHW", kernel="OIHW", pool2d="NCHW")
"""Convolutions and pools as passes and backends know them."""

O0: Final[tuple[Pass, ...]] = (
    IN_PLAIN_LAYOUT,  # all that follows knows NCHW and OIHW only
    DynamicToStatic(),  # shapes that are constant are known when kernels are made
    ExpandOperators(),  # backends and patterns know simple operators only
    DynamicToStatic(),  # lengths that expansions ask for
    SimplifyInference(),  # no backend knows nn.batch_norm
)
"""As written."""

O1: Final[tuple[Pass, ...]] = (
    IN_PLAIN_LAYOUT,  # all that follows knows NCHW and OIHW only
    RemoveUnusedFunctions(),  # nothing is done to what main never calls
    Inline(),  # functions that ask for it, before anything looks at their bodies
    DynamicToStatic(),  # shapes that are constant are known when kernels are made
    ExpandOperators(),  # backends and patterns know simple operators only
    DynamicToStatic(),  # lengths that expansions ask for
    SimplifyInference(),  # it leaves products and sums for all that follow
    FoldConstant(),  # weights that are written as arithmetic become constants
    EliminateCommonSubexpr(),  # before matching: two spellings of one value become one node
    SimplifyExpr(),  # equal operands are one node now; what it makes constant is small
    EliminateDeadCode(),
)
"""What costs little and always pays."""

_MATCHED: Final[tuple[Pass, ...]] = (
    DynamicToStatic(),  # what follows knows lengths, not tensors of them
    ExpandOperators(),  # backends and patterns know simple operators only
    DynamicToStatic(),  # lengths that expansions ask for
    SimplifyInference(),  # first: it leaves products and sums for all that follow
    FoldConstant(),  # weights that are written as arithmetic become constants
    ToGraphNormalForm(),  # patterns look from node to node, not through names
    EliminateCommonSubexpr(),  # x * f(x) is recognised by one x
    SimplifyExpr(),  # before matching: fewer spellings of one value
    CanonicalizeActivations(),  # before fold-scale-axis, which would move the 1/6 of a hard swish
    CanonicalizePooling(),  # quantization and accelerator know global pools by name
    FoldExplicitPadding(),  # before fold-scale-axis, which asks whether a convolution pads
    FoldScaleAxis(),  # the products and sums of simplify-inference go into weights
    FoldConstant(),  # what became constant on the way
    EliminateDeadCode(),
)
"""What finds larger operators in smaller ones: the middle of O2 to O4."""

O2: Final[tuple[Pass, ...]] = (
    IN_PLAIN_LAYOUT,  # all that follows knows NCHW and OIHW only
    RemoveUnusedFunctions(),  # nothing is done to what main never calls
    Inline(),  # functions that ask for it, before anything looks at their bodies
    *_MATCHED,
    ToBasicBlockNormalForm(),  # a backend compiles block by block: no node is in two of them
)
"""The default: quantization and the accelerator know what it leaves."""

_KNOWN: Final[tuple[Pass, ...]] = (
    RemoveUnusedFunctions(),  # nothing is done to what main never calls
    Inline(),  # functions that ask for it; partial evaluation follows others by itself
    PartialEvaluate(),  # closures, data and cells that are known go: gradients become graphs
    EliminateDeadCode(),  # what partial evaluation left behind, and functions that it followed
)
"""What happens at compile time: the start of O3 and O4."""

O3: Final[tuple[Pass, ...]] = (
    IN_PLAIN_LAYOUT,  # all that follows knows NCHW and OIHW only
    *_KNOWN,
    *_MATCHED,
    RemoveStandaloneReshapes(),  # elementwise operators fuse where no reshape parts them
    CanonicalizeCast(),  # after equal calls are one: each reader fuses with a cast of its own
    ToBasicBlockNormalForm(),  # a backend compiles block by block: no node is in two of them
)
"""More time and perhaps more code for less to do at run time."""

O4: Final[tuple[Pass, ...]] = (
    IN_PLAIN_LAYOUT,  # all that follows knows NCHW and OIHW only
    *_KNOWN,
    *_MATCHED,
    CombineParallelConv2D(),  # after fold-scale-axis: scales that differ are in the weights
    CombineParallelDense(),  # the same for products with matrices
    CombineParallelBatchMatmul(),  # and for many of them
    FoldConstant(),  # the weights that were put together
    RemoveStandaloneReshapes(),  # elementwise operators fuse where no reshape parts them
    CanonicalizeCast(),  # after equal calls are one: each reader fuses with a cast of its own
    EliminateDeadCode(),
    ToBasicBlockNormalForm(),  # a backend compiles block by block: no node is in two of them
)
"""Everything that keeps the answer within docs/numbers.md; some networks gain, some do not."""

LEVELS: Final[tuple[tuple[Pass, ...], ...]] = (O0, O1, O2, O3, O4)


def pipeline(level: int = 2, text: str | None = None) -> tuple[Pass, ...]:
    """Return the passes of a level, 0 to 4, or those that a text names.

    Examples
    --------
    >>> [each.name for each in pipeline(text="fold-constant,eliminate-dead-code")]
    ['fold-constant', 'eliminate-dead-code']

    Raises
    ------
    ValueError
        There is no such level.
    CodesignError
        The text is no pipeline.
    """
    if text is not None:
        return parse_pipeline(text, PASSES, LEVELS)
    if level not in range(len(LEVELS)):
        raise ValueError(f"level must be 0 to {len(LEVELS) - 1}, not {level}")
    return LEVELS[level]


def optimize(
    module: Module,
    level: int = 2,
    *,
    passes: str | None = None,
    verify: bool = False,
    observe: Callable[[int, str, Module], None] | None = None,
) -> Module:
    """Return the module after the passes of a level or of a text; its meaning stays.

    `observe(index, name, module)` sees the module before the first pass and after each; `verify`
    checks it after each.

    Raises
    ------
    ValueError
        There is no such level.
    CodesignError
        The text is no pipeline.
    """
    return PassManager(verify=verify, observe=observe).run(module, pipeline(level, passes))


def fuse(module: Module) -> Module:
    """Return the module with operators that run as one kernel in Primitive functions."""
    return PassManager().run(module, (FuseOps(),), frozenset({Form.TYPED, Form.INFERENCE}))
