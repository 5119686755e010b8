"""Reading an ONNX file: bytes to a protocol buffer that is whole, with nothing executed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs

from codesign.compiler.frontend.onnx.errors import malformed

OLDEST_OPSET: Final = 7
NEWEST_OPSET: Final = 23
LARGEST_FILE_BYTES: Final = 2**31 - 1


def read_model(path: Path) -> tuple[onnx.ModelProto, int]:
    """Return the model of a file and its opset of the default domain.

    Raises
    ------
    CodesignError
        There is no such file, it is no ONNX model, it is cut off, or its opset is out of range.
    """
    if not path.is_file():
        raise malformed(path, "there is no such file")
    if path.stat().st_size > LARGEST_FILE_BYTES:
        raise malformed(path, "a protocol buffer has less than 2 GiB", hint="use external data")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise malformed(path, "it is no protocol buffer, or it is cut off") from error
    if model.ir_version == 0 or not model.HasField("graph") or not model.graph.output:
        raise malformed(path, "it holds no graph with an output")
    return model, _default_opset(model, path)


def _default_opset(model: onnx.ModelProto, path: Path) -> int:
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if not versions:
        raise malformed(path, "it imports no opset of the default domain")
    opset = int(versions[0])
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise malformed(
            path,
            f"it uses opset {opset}; opsets {OLDEST_OPSET} to {NEWEST_OPSET} are known here",
            hint="export the network again with an opset in this range",
        )
    return opset
