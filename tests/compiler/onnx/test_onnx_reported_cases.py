"""Cases that went wrong in published compilers, with the right answers as numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from tests.support.onnx_graphs import imported_outputs, node_model

SMALL = np.array([[[[1, 2], [3, 4]]]], np.float32)
KERNEL = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
ROWS = np.array([[10, 11, 12], [20, 21, 22]], np.float32)
LINE = np.array([[1, 2, 3, 4, 5]], np.float32)


@pytest.mark.parametrize(
    ("extra", "wanted"),
    [
        ([1, 1], [[5, 14, 10, 12], [14, 36, 24, 30], [15, 34, 20, 24], [24, 55, 32, 36]]),
        ([1, 0], [[5, 14, 10], [14, 36, 24], [15, 34, 20], [24, 55, 32]]),
    ],
)
def test_output_padding_of_a_transposed_convolution_holds_values(
    extra: list[int], wanted: list[list[int]], tmp_path: Path
) -> None:
    inputs = {"x": SMALL, "w": KERNEL}
    proto = node_model(
        "ConvTranspose", inputs, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=extra
    )
    (found,) = imported_outputs(proto, inputs, tmp_path)
    np.testing.assert_array_equal(found[0, 0], wanted)


def test_output_padding_makes_56_of_28(tmp_path: Path) -> None:
    inputs = {"x": np.ones((1, 1, 28, 28), np.float32), "w": KERNEL}
    proto = node_model(
        "ConvTranspose", inputs, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]
    )
    assert imported_outputs(proto, inputs, tmp_path)[0].shape == (1, 1, 56, 56)


@pytest.mark.parametrize(
    ("operator", "indices", "attributes", "wanted"),
    [
        ("Gather", [-1, 0, -3], {"axis": 1}, [[12, 10, 10], [22, 20, 20]]),
        ("GatherElements", [[-1, -2, 0], [-3, 2, -1]], {"axis": 1},
         [[12, 11, 10], [20, 22, 22]]),
        ("GatherND", [[-1, -1], [0, -2]], {}, [22, 11]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stored", [True, False])
def test_negative_indices_count_from_the_end(
    operator: str,
    indices: list[int],
    attributes: dict[str, int],
    wanted: list[int],
    stored: bool,
    tmp_path: Path,
) -> None:
    inputs = {"x": ROWS, "i": np.array(indices, np.int64)}
    proto = node_model(operator, inputs, stored=("i",) if stored else (), **attributes)
    np.testing.assert_array_equal(imported_outputs(proto, inputs, tmp_path)[0], wanted)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("index", [3, -4])
def test_an_index_outside_is_refused(stored: bool, index: int, tmp_path: Path) -> None:
    inputs = {"x": ROWS, "i": np.array([index], np.int64)}
    proto = node_model("Gather", inputs, stored=("i",) if stored else (), axis=1)
    with pytest.raises(CodesignError, match=f"index {index} ") as caught:
        imported_outputs(proto, inputs, tmp_path)
    assert "node 'the_node' (Gather)" in str(caught.value)


def _batch_norm() -> dict[str, Array | None]:
    return {
        "x": np.array([[[1, 2], [3, 5]]], np.float32),
        "s": np.array([2, 1], np.float32),
        "b": np.array([0.5, -1], np.float32),
        "m": np.array([1, 2], np.float32),
        "v": np.array([4, 1], np.float32),
    }


def test_batch_normalization_uses_stored_statistics(tmp_path: Path) -> None:
    inputs = _batch_norm()
    proto = node_model("BatchNormalization", inputs, epsilon=0.0)
    np.testing.assert_array_equal(
        imported_outputs(proto, inputs, tmp_path)[0], [[[0.5, 1.5], [0, 2]]]
    )


def test_batch_normalization_in_training_is_refused_by_name(tmp_path: Path) -> None:
    inputs = _batch_norm()
    proto = node_model("BatchNormalization", inputs, outputs=3, training_mode=1)
    with pytest.raises(CodesignError, match="training_mode = 1"):
        imported_outputs(proto, inputs, tmp_path)


@pytest.mark.parametrize(
    ("x", "pads", "mode", "wanted"),
    [
        ([[3, 4, 5]], [0, 1, 0, 1], "reflect", [4, 3, 4, 5, 4]),
        (LINE, [0, 2, 0, 3], "reflect", [3, 2, 1, 2, 3, 4, 5, 4, 3, 2]),
        (LINE, [0, -1, 0, 2], "constant", [2, 3, 4, 5, 0, 0]),
    ],
)
def test_pad_gives_what_the_specification_says(
    x: Array, pads: list[int], mode: str, wanted: list[int], tmp_path: Path
) -> None:
    inputs = {"x": np.array(x, np.float32), "p": np.array(pads, np.int64)}
    proto = node_model("Pad", inputs, stored=("p",), mode=mode)
    np.testing.assert_array_equal(imported_outputs(proto, inputs, tmp_path)[0], [wanted])


def test_a_reflection_beyond_the_axis_is_refused(tmp_path: Path) -> None:
    inputs = {"x": np.ones((1, 2), np.float32), "p": np.array([1, 1, 1, 1], np.int64)}
    proto = node_model("Pad", inputs, stored=("p",), mode="reflect")
    with pytest.raises(CodesignError, match="axis 0 of length 1 by 1"):
        imported_outputs(proto, inputs, tmp_path)
