"""Tensors of an ONNX file as arrays; data outside the file is read from the model's folder only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from codesign.compiler.frontend.onnx.errors import malformed
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType

_NUMPY_NAMES: Final = {
    onnx.TensorProto.BOOL: DType.BOOL,
    onnx.TensorProto.INT8: DType.INT8,
    onnx.TensorProto.INT16: DType.INT16,
    onnx.TensorProto.INT32: DType.INT32,
    onnx.TensorProto.INT64: DType.INT64,
    onnx.TensorProto.UINT8: DType.UINT8,
    onnx.TensorProto.UINT16: DType.UINT16,
    onnx.TensorProto.UINT32: DType.UINT32,
    onnx.TensorProto.UINT64: DType.UINT64,
    onnx.TensorProto.FLOAT16: DType.FLOAT16,
    onnx.TensorProto.FLOAT: DType.FLOAT32,
    onnx.TensorProto.DOUBLE: DType.FLOAT64,
}


def element_type(code: int) -> DType | None:
    """Return the element type of an ONNX type code, or None where there is none here."""
    return _NUMPY_NAMES.get(code)


def type_name(code: int) -> str:
    """Return ONNX's name of a type code."""
    names = {value: name for name, value in onnx.TensorProto.DataType.items()}
    return str(names.get(code, f"code {code}"))


def tensor_array(tensor: onnx.TensorProto, path: Path) -> Array:
    """Return the array of a tensor of the model at `path`.

    Raises
    ------
    CodesignError
        The element type is unknown here, the data do not fill the shape, or they lie in a file
        outside the model's folder.
    """
    dtype = element_type(tensor.data_type)
    if dtype is None:
        name = type_name(tensor.data_type)
        raise malformed(path, f"tensor {tensor.name!r} has elements of {name}, unknown here")
    if any(dim < 0 for dim in tensor.dims):
        raise malformed(path, f"tensor {tensor.name!r} has the shape {list(tensor.dims)}")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        array = _external_array(tensor, dtype, path)
    else:
        array = _embedded_array(tensor, path)
    array = np.ascontiguousarray(array).reshape(tuple(tensor.dims))
    array.flags.writeable = False
    return array


def _embedded_array(tensor: onnx.TensorProto, path: Path) -> Array:
    elements = int(np.prod(tensor.dims, dtype=np.int64))
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise malformed(path, f"tensor {tensor.name!r} is broken: {error}") from error
    if array.size != elements:
        raise malformed(
            path, f"tensor {tensor.name!r} has {array.size} elements, its shape says {elements}"
        )
    return array.copy()


def _external_array(tensor: onnx.TensorProto, dtype: DType, path: Path) -> Array:
    facts = {entry.key: entry.value for entry in tensor.external_data}
    file = _external_path(facts.get("location", ""), tensor.name, path)
    size_bytes = int(np.prod(tensor.dims, dtype=np.int64)) * dtype.size_bytes
    try:
        offset = int(facts.get("offset", "0"))
        length = int(facts.get("length", str(size_bytes)))
    except ValueError as error:
        raise malformed(path, f"tensor {tensor.name!r} has a broken offset: {error}") from error
    available = file.stat().st_size
    if length != size_bytes or offset < 0 or offset + length > available:
        raise malformed(
            path,
            f"tensor {tensor.name!r} needs {size_bytes} bytes; the file {file.name!r} of "
            f"{available} bytes is said to hold {length} at {offset}",
        )
    with file.open("rb") as stream:
        stream.seek(offset)
        data = stream.read(length)
    return np.frombuffer(data, dtype.numpy.newbyteorder("<")).astype(dtype.numpy)


def _external_path(location: str, tensor: str, path: Path) -> Path:
    folder = path.resolve().parent
    relative = Path(location)
    if not location or relative.is_absolute() or ".." in relative.parts or "\\" in location:
        raise _outside(tensor, location, path)
    file = folder / relative
    if not file.resolve().is_relative_to(folder):
        raise _outside(tensor, location, path)
    if not file.is_file():
        raise malformed(path, f"tensor {tensor!r} lies in {location!r}, which is no file beside it")
    return file


def _outside(tensor: str, location: str, path: Path) -> CodesignError:
    return malformed(
        path,
        f"tensor {tensor!r} lies in {location!r}, outside the model's folder",
        hint="data of a model must lie in its own folder, under a relative name",
    )
