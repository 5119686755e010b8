"""Operators of TVM that this vocabulary does not have, and why; what to write in their place.

Names that end in `.` stand for all that begin so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LENGTH_BY_VALUE: Final = (
    "the length of its result hangs on values; keep a fixed length and mark what counts"
)
_BOXES: Final = "boxes are chosen by value and number; use topk, gather_nd and where"
_SPARSE: Final = "tensors are dense here; write the matrix with its zeros"
_STATEFUL: Final = "it draws random numbers; give them as an argument"
_TRAINING: Final = "codesign.gradient writes what it does with other operators"
_PACKED: Final = "layouts belong to the compiler: write nn.conv2d or nn.dense"
_INTERNAL: Final = "it is made inside of TVM after lowering; give the module before that"
_BITS: Final = "weights and activations of single bits are not computed with"
_QUANTIZED: Final = "write it between qnn.dequantize and qnn.quantize, or let quantization make it"
_TOLD: Final = "give its size as an attribute of the operator without dyn."
_SPECTRA: Final = "there are no complex numbers here"

REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("argwhere", "unique"), _LENGTH_BY_VALUE),
    **dict.fromkeys(("sparse_fill_empty_rows", "sparse_reshape"), _LENGTH_BY_VALUE),
    "vision.": _BOXES,
    **dict.fromkeys(("sparse_to_dense", "dyn.sparse_to_dense"), "write scatter_nd"),
    **dict.fromkeys(("nn.sparse_dense", "nn.sparse_add", "nn.sparse_transpose"), _SPARSE),
    **dict.fromkeys(("nn.sparse_conv2d", "nn.internal.sparse_dense_padded"), _SPARSE),
    "random.": _STATEFUL,
    **dict.fromkeys(("nn.max_pool2d_grad", "nn.avg_pool2d_grad"), _TRAINING),
    "nn.conv2d_backward_weight": _TRAINING,
    "nn.contrib_": _PACKED,
    **dict.fromkeys(("auto_scheduler_layout_transform", "meta_schedule_layout_transform"), _PACKED),
    **dict.fromkeys(("memory.", "vm.", "annotation.", "call_lowered"), _INTERNAL),
    **dict.fromkeys(("device_copy", "on_device", "debug", "torch_op"), _INTERNAL),
    **dict.fromkeys(("nn.bitpack", "nn.bitserial_conv2d", "nn.bitserial_dense"), _BITS),
    "relay.op.annotation.simulated_quantize": _QUANTIZED,
    "qnn.": _QUANTIZED,
    "contrib.ethosu.": "it is an operator of another accelerator",
    **dict.fromkeys(("dft", "stft"), _SPECTRA),
    "reinterpret": "bits of one element type are not read as another's; cast converts the number",
    **dict.fromkeys(("fixed_point_multiply", "fixed_point_multiply_per_axis"), _QUANTIZED),
    "contrib_reverse_reshape": "write reshape with the lengths that are meant",
    "matrix_set_diag": "write where with a mask made by trilu",
    "sliding_window": "write strided_slice for each place of the window, and stack",
    "nn.fifo_buffer": "write concatenate and strided_slice",
    "nn.correlation": "write pads, strided_slice, multiply and mean",
    "nn.deformable_conv2d": "its places are computed; write image samples and nn.conv2d",
    "nn.conv3d_transpose": "write nn.dilate, nn.pad and nn.conv3d with the kernel turned",
    "nn.upsampling3d": "write repeat along each axis",
    **dict.fromkeys(("dyn.nn.upsampling", "dyn.nn.upsampling3d"), _TOLD),
    "dyn.image.resize2d": _TOLD,
    **dict.fromkeys(("image.affine_grid", "image.grid_sample"), "write gather_nd and arithmetic"),
    "image.crop_and_resize": "write strided_slice and image.resize2d",
    "image.dilation2d": "write nn.max_pool2d of shifted sums",
    "image.resize3d": "write image.resize2d and image.resize1d",
}
"""Why there is no such operator, by name or by how names begin."""


def why_refused(name: str) -> str | None:
    """Return why there is no operator of this name; None where nothing is known of it."""
    if name in REFUSED:
        return REFUSED[name]
    begins = (each for each in REFUSED if each.endswith((".", "_")) and name.startswith(each))
    return next((REFUSED[each] for each in begins), None)
