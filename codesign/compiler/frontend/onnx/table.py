"""Which ONNX operators this compiler knows: one row an operator, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from codesign.compiler.frontend.onnx import (
    activations,
    arithmetic,
    constants,
    convolution,
    gathering,
    linear,
    normalization,
    pooling,
    reductions,
    reshaping,
    resizing,
    slicing,
)
from codesign.compiler.frontend.onnx.arithmetic import renamed, variadic
from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.quantized import contrib, linear_scale, qlinear
from codesign.compiler.frontend.onnx.reductions import reduction
from codesign.ir.relay.expr import Expr

Importer: TypeAlias = Callable[[Node, Builder], Expr | tuple[Expr, ...]]

IMPORTERS: Final[Mapping[str, Importer]] = MappingProxyType(
    {
        "Abs": renamed("abs", 1),
        "Acos": renamed("acos", 1),
        "Acosh": renamed("acosh", 1),
        "Add": renamed("add", 2),
        "And": renamed("logical_and", 2),
        "ArgMax": reductions.argmax,
        "Asin": renamed("asin", 1),
        "Asinh": renamed("asinh", 1),
        "Atan": renamed("atan", 1),
        "Atanh": renamed("atanh", 1),
        "AveragePool": pooling.average_pool,
        "BatchNormalization": normalization.batch_normalization,
        "Cast": arithmetic.cast,
        "Ceil": renamed("ceil", 1),
        "Clip": activations.clip,
        "Concat": slicing.concat,
        "Constant": constants.constant,
        "ConstantOfShape": constants.constant_of_shape,
        "Conv": convolution.conv,
        "ConvInteger": qlinear.conv_integer,
        "ConvTranspose": convolution.conv_transpose,
        "Cos": renamed("cos", 1),
        "Cosh": renamed("cosh", 1),
        "DepthToSpace": reshaping.depth_to_space,
        "DequantizeLinear": linear_scale.dequantize_linear,
        "Div": renamed("divide", 2),
        "Dropout": arithmetic.dropout,
        "DynamicQuantizeLinear": linear_scale.dynamic_quantize_linear,
        "Elu": activations.elu,
        "Equal": renamed("equal", 2),
        "Erf": renamed("erf", 1),
        "Exp": renamed("exp", 1),
        "Expand": slicing.expand,
        "Flatten": reshaping.flatten,
        "Floor": renamed("floor", 1),
        "Gather": gathering.gather,
        "GatherElements": gathering.gather_elements,
        "GatherND": gathering.gather_nd,
        "Gelu": activations.gelu,
        "Gemm": linear.gemm,
        "GlobalAveragePool": pooling.global_average_pool,
        "GlobalMaxPool": pooling.global_max_pool,
        "Greater": renamed("greater", 2),
        "GreaterOrEqual": renamed("greater_equal", 2),
        "HardSigmoid": activations.hard_sigmoid,
        "HardSwish": renamed("nn.hard_swish", 1),
        "Identity": arithmetic.identity,
        "InstanceNormalization": normalization.instance_normalization,
        "IsNaN": renamed("isnan", 1),
        "LayerNormalization": normalization.layer_normalization,
        "LeakyRelu": activations.leaky_relu,
        "Less": renamed("less", 2),
        "LessOrEqual": renamed("less_equal", 2),
        "Log": renamed("log", 1),
        "LogSoftmax": normalization.log_softmax,
        "MatMul": linear.matmul,
        "MatMulInteger": qlinear.matmul_integer,
        "Max": variadic("maximum"),
        "MaxPool": pooling.max_pool,
        "Mean": arithmetic.mean,
        "Min": variadic("minimum"),
        "Mul": renamed("multiply", 2),
        "Neg": renamed("negative", 1),
        "Not": renamed("logical_not", 1),
        "Or": renamed("logical_or", 2),
        "PRelu": activations.prelu,
        "Pad": slicing.pad,
        "Pow": arithmetic.power,
        "QLinearConv": qlinear.qlinear_conv,
        "QLinearMatMul": qlinear.qlinear_matmul,
        "QuantizeLinear": linear_scale.quantize_linear,
        "Range": constants.range_,
        "Reciprocal": arithmetic.reciprocal,
        "ReduceL2": reductions.reduce_l2,
        "ReduceMax": reduction("max"),
        "ReduceMean": reduction("mean"),
        "ReduceMin": reduction("min"),
        "ReduceProd": reduction("prod"),
        "ReduceSum": reduction("sum"),
        "Relu": renamed("nn.relu", 1),
        "Reshape": reshaping.reshape,
        "Resize": resizing.resize,
        "Round": renamed("round", 1),
        "Shape": constants.shape,
        "Sigmoid": renamed("sigmoid", 1),
        "Sign": renamed("sign", 1),
        "Sin": renamed("sin", 1),
        "Sinh": renamed("sinh", 1),
        "Size": constants.size,
        "Slice": slicing.slice_,
        "Softmax": normalization.softmax,
        "Softplus": activations.softplus,
        "Split": slicing.split,
        "Sqrt": renamed("sqrt", 1),
        "Squeeze": reshaping.squeeze,
        "Sub": renamed("subtract", 2),
        "Sum": variadic("add"),
        "Tan": renamed("tan", 1),
        "Tanh": renamed("tanh", 1),
        "Tile": slicing.tile,
        "Transpose": reshaping.transpose,
        "Unsqueeze": reshaping.unsqueeze,
        "Upsample": resizing.upsample,
        "Where": renamed("where", 3),
        "Xor": renamed("logical_xor", 2),
    }
)
"""Importers of the standard domain."""

MICROSOFT: Final[Mapping[str, Importer]] = MappingProxyType(
    {
        "DequantizeLinear": linear_scale.dequantize_linear,
        "MatMulIntegerToFloat": qlinear.matmul_integer_to_float,
        "QGemm": qlinear.qgemm,
        "QLinearAdd": contrib.binary("add"),
        "QLinearAveragePool": contrib.average_pool,
        "QLinearConcat": contrib.concat,
        "QLinearConv": qlinear.qlinear_conv,
        "QLinearGlobalAveragePool": contrib.global_average_pool,
        "QLinearLeakyRelu": contrib.leaky_relu,
        "QLinearMul": contrib.binary("multiply"),
        "QLinearSigmoid": contrib.sigmoid,
        "QuantizeLinear": linear_scale.quantize_linear,
    }
)
"""Importers of com.microsoft: what onnxruntime writes when it quantizes a network."""

DOMAINS: Final[Mapping[str, Mapping[str, Importer]]] = MappingProxyType(
    {"": IMPORTERS, "ai.onnx": IMPORTERS, "com.microsoft": MICROSOFT}
)
"""Importers by domain."""
