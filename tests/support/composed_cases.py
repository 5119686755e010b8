"""Random legal calls of operators that are made of simpler ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.blocks import (
    BatchToSpaceAttrs,
    DepthToSpaceAttrs,
    SpaceToBatchAttrs,
    SpaceToDepthAttrs,
)
from codesign.ops.composed.layers import (
    AdaptivePoolAttrs,
    LRNAttrs,
    NLLLossAttrs,
    UpSamplingAttrs,
)
from codesign.ops.composed.lines import (
    Conv1DAttrs,
    Conv1DTransposeAttrs,
    Pool1DAttrs,
    Resize1DAttrs,
)
from codesign.ops.composed.moving import (
    DilateAttrs,
    MirrorPadAttrs,
    SliceLikeAttrs,
    StridedSetAttrs,
)
from codesign.ops.composed.ordering import (
    ArgSortAttrs,
    RunningAttrs,
    SearchSortedAttrs,
    SortAttrs,
    TopKAttrs,
)
from codesign.ops.composed.places import MeshgridAttrs, NdarraySizeAttrs, TriluAttrs
from codesign.ops.composed.reductions import VarianceAttrs
from codesign.ops.composed.scatter import ScatterElementsAttrs, ScatterNDAttrs
from codesign.ops.composed.sequences import EinsumAttrs, ReverseSequenceAttrs, SequenceMaskAttrs
from codesign.ops.composed.told import DynExpandDimsAttrs, DynTopKAttrs
from codesign.ops.composed.volumes import Conv3DAttrs, Pool3DAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from tests.support.operator_draws import Case, Rng, fixed, floats, random_pair, random_shape


def _one_of(rng: Rng, *options: object) -> object:
    return options[int(rng.integers(0, len(options)))]


def _flag(rng: Rng) -> bool:
    return bool(rng.integers(0, 2))


def _whole(rng: Rng) -> Case:
    left = rng.integers(-40, 40, (2, 3, 4)).astype(np.int32)
    right = rng.integers(1, 9, (3, 1)).astype(np.int32) * np.int32(_one_of(rng, -1, 1))
    return Case((left, right))


def _truths(rng: Rng) -> Case:
    axis = _one_of(rng, (), (1,), (-1, 0))
    attrs = ReduceAttrs(axis=axis, keepdims=_flag(rng))  # type: ignore[arg-type]
    return Case((rng.random(random_shape(rng, 3)) < 0.7,), attrs)


def _argmin(rng: Rng) -> Case:
    attrs = ArgReduceAttrs(
        axis=int(rng.integers(-3, 3)), keepdims=_flag(rng), select_last_index=_flag(rng)
    )
    return Case((rng.integers(0, 3, random_shape(rng, 3, low=1)).astype(np.float32),), attrs)


def _variance(rng: Rng) -> Case:
    data = floats(rng, 2, 4, 3)
    attrs = VarianceAttrs(axis=(1, -1), keepdims=_flag(rng), unbiased=_flag(rng))
    return Case((data, np.asarray(data.mean(axis=(1, 2), keepdims=True))), attrs)


def _space_to_depth(rng: Rng) -> Case:
    if _flag(rng):
        return Case((floats(rng, 2, 3, 4, 6),), SpaceToDepthAttrs(block_size=2))
    return Case((floats(rng, 1, 6, 3, 2),), SpaceToDepthAttrs(block_size=3, layout="NHWC"))


def _depth_to_space(rng: Rng) -> Case:
    mode = _one_of(rng, "DCR", "CDR")
    if _flag(rng):
        attrs = DepthToSpaceAttrs(block_size=2, mode=mode)  # type: ignore[arg-type]
        return Case((floats(rng, 2, 8, 3, 2),), attrs)
    attrs = DepthToSpaceAttrs(block_size=2, layout="NHWC", mode=mode)  # type: ignore[arg-type]
    return Case((floats(rng, 1, 3, 2, 12),), attrs)


def _gather(rng: Rng) -> Case:
    return Case((floats(rng, 3, 4), rng.integers(-4, 4, (2, 5))), AxisAttrs(axis=1))


def distinct(rng: Rng, *shape: int) -> Array:
    """Return different numbers, well apart, so that an order does not hang on a little."""
    count = int(np.prod(shape))
    return np.asarray(rng.permutation(count).reshape(shape) / 4 - count / 9, np.float32)


def _scatter_elements(rng: Rng) -> Case:
    how = _one_of(rng, "update", "add", "mul", "min", "max")
    attrs = ScatterElementsAttrs(axis=int(rng.integers(-2, 2)), reduction=how)  # type: ignore[arg-type]
    values = distinct(rng, 24)
    data, updates = values[:15].reshape(3, 5), values[15:21].reshape(2, 3)
    return Case((data, rng.integers(-3, 3, (2, 3)), updates), attrs)


def _scatter_nd(rng: Rng) -> Case:
    attrs = ScatterNDAttrs(mode=_one_of(rng, "update", "add", "mul", "min", "max"))  # type: ignore[arg-type]
    values = distinct(rng, 36)
    indices = rng.integers(-2, 2, (2, 2, 3)).astype(np.int32)
    return Case((values[:12].reshape(2, 3, 2), indices, values[12:24].reshape(2, 3, 2)), attrs)


def _running(rng: Rng) -> Case:
    attrs = RunningAttrs(axis=int(rng.integers(-2, 2)), exclusive=_flag(rng))
    return Case((np.asarray(floats(rng, *random_shape(rng, 2)) + np.float32(0.1)),), attrs)


def _ordered(attrs: type[SortAttrs | ArgSortAttrs]) -> Callable[[Rng], Case]:
    return lambda rng: Case(
        (distinct(rng, 3, 5),), attrs(axis=int(rng.integers(-2, 2)), is_ascend=_flag(rng))
    )


def _topk(rng: Rng) -> Case:
    kind = _one_of(rng, "both", "values", "indices")
    attrs = TopKAttrs(k=2, axis=-1, ret_type=kind, is_ascend=_flag(rng))  # type: ignore[arg-type]
    return Case((distinct(rng, 3, 5),), attrs)


def _search(rng: Rng) -> Case:
    attrs = SearchSortedAttrs(right=_flag(rng), dtype=DType.INT64)
    if _flag(rng):
        return Case((np.sort(rng.integers(0, 9, 6)), rng.integers(-1, 10, (2, 3))), attrs)
    return Case((np.sort(floats(rng, 2, 4), axis=1), floats(rng, 2, 3)), attrs)


def _mirror(rng: Rng) -> Case:
    mode = _one_of(rng, "SYMMETRIC", "REFLECT")
    attrs = MirrorPadAttrs(pad_width=((0, 0), random_pair(rng, 0, 4)), mode=mode)  # type: ignore[arg-type]
    return Case((floats(rng, 2, 4),), attrs)


def _dilate(rng: Rng) -> Case:
    value = float(_one_of(rng, 0.0, 2.5))  # type: ignore[arg-type]
    attrs = DilateAttrs(strides=random_pair(rng, 1, 4), dilation_value=value)
    return Case((floats(rng, *random_shape(rng, 2)),), attrs)


def _set(rng: Rng) -> Case:
    data = floats(rng, 4, 5)
    attrs = StridedSetAttrs(begin=(1, -1), end=(4, 0), strides=(2, -2))
    if _flag(rng):
        attrs = StridedSetAttrs(begin=(1,), end=(3,))
        return Case((data, floats(rng, 2, 5)), attrs)
    return Case((data, floats(rng, 2, 2)), attrs)


def _trilu(rng: Rng) -> Case:
    diagonal = np.asarray(rng.integers(-3, 4), np.int32)
    return Case((floats(rng, 2, 3, 4), diagonal), TriluAttrs(upper=_flag(rng)))


def _meshgrid(rng: Rng) -> Case:
    indexing = _one_of(rng, "ij", "xy")
    vectors = (floats(rng, 2), floats(rng, 3), floats(rng, 4))
    return Case((vectors,), MeshgridAttrs(indexing=indexing))  # type: ignore[arg-type]


def _mask(rng: Rng) -> Case:
    axis = int(rng.integers(0, 2))
    attrs = SequenceMaskAttrs(mask_value=-1.5, axis=axis)
    return Case((floats(rng, 4, 3, 2), rng.integers(-1, 6, (3, 4)[axis]).astype(np.int32)), attrs)


def _reverse(rng: Rng) -> Case:
    attrs = ReverseSequenceAttrs(seq_axis=2, batch_axis=-3)
    return Case((floats(rng, 3, 2, 4), rng.integers(0, 6, 3).astype(np.int32)), attrs)


def _adv(rng: Rng) -> Case:
    rows, columns = rng.integers(-3, 3, (2, 1)), rng.integers(-4, 4, 5)
    return Case(((floats(rng, 3, 4, 2), rows, columns),))


def _einsum(rng: Rng) -> Case:
    match int(rng.integers(0, 4)):
        case 0:
            return Case(
                ((floats(rng, 2, 3), floats(rng, 3, 4)),), EinsumAttrs(equation="ij,jk->ik")
            )
        case 1:
            operands = (floats(rng, 5, 2, 3), floats(rng, 3, 5), floats(rng, 2))
            return Case((operands,), EinsumAttrs(equation="bij,jb,i->jb"))
        case 2:
            return Case(((floats(rng, 2, 3),),), EinsumAttrs(equation="ba"))
        case _:
            return Case(((floats(rng, 2, 3), floats(rng, 2, 3)),), EinsumAttrs(equation="ij,ij->"))


def _conv1d(rng: Rng) -> Case:
    groups = int(_one_of(rng, 1, 2))  # type: ignore[call-overload]
    attrs = Conv1DAttrs(
        strides=(int(rng.integers(1, 3)),),
        padding=random_pair(rng, 0, 3),
        dilation=(int(rng.integers(1, 3)),),
        groups=groups,
    )
    return Case((floats(rng, 2, 4, 9), floats(rng, 6, 4 // groups, 3)), attrs)


def _conv1d_transpose(rng: Rng) -> Case:
    attrs = Conv1DTransposeAttrs(
        strides=(2,), padding=random_pair(rng, 0, 2), output_padding=(1,), dilation=(2,), groups=2
    )
    return Case((floats(rng, 2, 4, 5), floats(rng, 4, 3, 3)), attrs)


def _pool1d(rng: Rng) -> Case:
    attrs = Pool1DAttrs(
        pool_size=(3,),
        strides=(2,),
        padding=random_pair(rng, 0, 2),
        ceil_mode=_flag(rng),
        count_include_pad=_flag(rng),
    )
    return Case((distinct(rng, 2, 3, 8),), attrs)


def _resize1d(rng: Rng) -> Case:
    attrs = Resize1DAttrs(
        size=(int(rng.integers(1, 12)),),
        method=_one_of(rng, "nearest_neighbor", "linear"),  # type: ignore[arg-type]
        coordinate_transformation_mode=_one_of(  # type: ignore[arg-type]
            rng, "half_pixel", "asymmetric", "align_corners"
        ),
    )
    return Case((floats(rng, 2, 3, 7),), attrs)


def _conv3d(rng: Rng) -> Case:
    groups = int(_one_of(rng, 1, 2))  # type: ignore[call-overload]
    attrs = Conv3DAttrs(strides=(2, 1, 2), padding=(1, 0, 1, 0, 2, 1), groups=groups)
    return Case((floats(rng, 2, 4, 4, 3, 5), floats(rng, 2, 4 // groups, 2, 3, 2)), attrs)


def _pool3d(rng: Rng) -> Case:
    attrs = Pool3DAttrs(
        pool_size=(2, 3, 2),
        strides=(1, 2, 2),
        padding=(1, 1, 0, 0, 2, 1),
        ceil_mode=_flag(rng),
        count_include_pad=_flag(rng),
    )
    return Case((distinct(rng, 1, 2, 3, 5, 4),), attrs)


def _adaptive(*shape: int) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        sizes = tuple(int(each) for each in rng.integers(1, 5, len(shape)))
        chosen = _one_of(rng, sizes, sizes[:1], ())
        return Case((distinct(rng, 2, 2, *shape),), AdaptivePoolAttrs(output_size=chosen))  # type: ignore[arg-type]

    return make


def _upsampling(rng: Rng) -> Case:
    method = _one_of(rng, "nearest_neighbor", "bilinear")
    attrs = UpSamplingAttrs(scale_h=2.0, scale_w=1.5, method=method, align_corners=_flag(rng))  # type: ignore[arg-type]
    return Case((floats(rng, 2, 3, 3, 4),), attrs)


def _loss(rng: Rng) -> Case:
    attrs = NLLLossAttrs(reduction=_one_of(rng, "mean", "sum", "none"), ignore_index=2)  # type: ignore[arg-type]
    weights = np.asarray(np.abs(floats(rng, 4)) + np.float32(0.1))
    targets = rng.integers(-1, 4, (3, 2)).astype(np.int32)
    targets[0, 0] = 1
    return Case((floats(rng, 3, 4, 2), targets, weights), attrs)


def _numbers(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _dyn_topk(rng: Rng) -> Case:
    kind = _one_of(rng, "both", "values", "indices")
    attrs = DynTopKAttrs(axis=-2, ret_type=kind, is_ascend=_flag(rng))  # type: ignore[arg-type]
    return Case((distinct(rng, 3, 5), np.asarray(rng.integers(0, 4))), attrs)


def _dyn_slice(rng: Rng) -> Case:
    begin, end = (_numbers(*random_pair(rng, -7, 7)) for _ in range(2))
    strides = _numbers(*(int(each) for each in rng.choice([-3, -2, -1, 1, 2, 3], 2)))
    return Case((floats(rng, 5, 4, 2), begin, end, strides))


def _dyn_axis(rng: Rng) -> Case:
    axis = np.asarray(rng.integers(-3, 3), np.int32)
    attrs = DynExpandDimsAttrs(num_newaxis=int(rng.integers(0, 3)))
    return Case((floats(rng, 2, 3), axis), attrs)


COMPOSED_CASES: dict[str, Callable[[Rng], Case]] = {
    **dict.fromkeys(("trunc_divide", "floor_divide", "trunc_mod", "mod", "floor_mod"), _whole),
    "fast_erf": fixed(None, (2, 3)),
    "all": _truths,
    "any": _truths,
    "argmin": _argmin,
    "variance": _variance,
    "nn.batch_flatten": fixed(None, (2, 3, 4)),
    "nn.space_to_depth": _space_to_depth,
    "nn.depth_to_space": _depth_to_space,
    "nn.space_to_batch_nd": fixed(
        SpaceToBatchAttrs(block_shape=(2, 3), paddings=((0, 1), (1, 0)), value=1.5), (2, 3, 5, 2)
    ),
    "nn.batch_to_space_nd": fixed(
        BatchToSpaceAttrs(block_shape=(2, 3), crops=((0, 1), (1, 0))), (12, 2, 3, 2)
    ),
    "gather": _gather,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "cumsum": _running,
    "cumprod": _running,
    "sort": _ordered(SortAttrs),
    "argsort": _ordered(ArgSortAttrs),
    "topk": _topk,
    "searchsorted": _search,
    "nn.mirror_pad": _mirror,
    "nn.dilate": _dilate,
    "slice_like": fixed(SliceLikeAttrs(axes=(-1, 0)), (4, 5, 6), (3, 9, 2)),
    "strided_set": _set,
    "trilu": _trilu,
    "meshgrid": _meshgrid,
    "unravel_index": lambda rng: Case((rng.integers(0, 24, (2, 3)), np.array([2, 3, 4]))),
    "invert_permutation": lambda rng: Case((rng.permutation(6).astype(np.int32),)),
    "ndarray_size": fixed(NdarraySizeAttrs(dtype=DType.INT32), (2, 0, 3)),
    "sequence_mask": _mask,
    "reverse_sequence": _reverse,
    "adv_index": _adv,
    "einsum": _einsum,
    "nn.conv1d": _conv1d,
    "nn.conv1d_transpose": _conv1d_transpose,
    "nn.max_pool1d": _pool1d,
    "nn.avg_pool1d": _pool1d,
    "image.resize1d": _resize1d,
    "nn.conv3d": _conv3d,
    "nn.max_pool3d": _pool3d,
    "nn.avg_pool3d": _pool3d,
    "nn.adaptive_avg_pool1d": _adaptive(7),
    "nn.adaptive_max_pool1d": _adaptive(7),
    "nn.adaptive_avg_pool2d": _adaptive(5, 6),
    "nn.adaptive_max_pool2d": _adaptive(5, 6),
    "nn.adaptive_avg_pool3d": _adaptive(4, 5, 3),
    "nn.adaptive_max_pool3d": _adaptive(4, 5, 3),
    "nn.upsampling": _upsampling,
    "nn.lrn": fixed(LRNAttrs(size=3, axis=-2, bias=1.5, alpha=0.3, beta=0.6), (2, 4, 3)),
    "nn.nll_loss": _loss,
    "dyn.tile": lambda rng: Case((floats(rng, 2, 3), _numbers(*rng.integers(0, 3, 3)))),
    "dyn.expand_dims": _dyn_axis,
    "dyn.squeeze": lambda rng: Case((floats(rng, 2, 1, 3, 1), _numbers(-1, 1))),
    "dyn.one_hot": lambda rng: Case(
        (rng.integers(-1, 5, (2, 3)), floats(rng), floats(rng), np.asarray(4)), AxisAttrs(axis=1)
    ),
    "dyn.topk": _dyn_topk,
    "dyn.nn.pad": lambda rng: Case((floats(rng, 2, 0, 3), rng.integers(0, 3, (3, 2)), floats(rng))),
    "dyn.strided_slice": _dyn_slice,
}
"""A maker of random legal calls for every composed operator."""
