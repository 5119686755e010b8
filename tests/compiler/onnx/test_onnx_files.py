"""ONNX files as wholes: what is refused, how shapes are bound, what is folded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from codesign.compiler.frontend.onnx import load_onnx
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError, OnnxNode
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, OpRef
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from tests.support.onnx_graphs import model, node_model, save

X = np.arange(12, dtype=np.float32).reshape(1, 3, 4)


def _relu() -> onnx.ModelProto:
    return node_model("Relu", {"x": X})


def _symbolic(*dims: int | str, inputs: int = 1) -> onnx.ModelProto:
    names = [f"x{index}" for index in range(inputs)]
    values = [helper.make_tensor_value_info(name, 1, list(dims)) for name in names]
    node = helper.make_node("Sum", names, ["y"])
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _nodes(proto: onnx.ModelProto, folder: Path) -> list[Call]:
    body = load_onnx(save(proto, folder)).module.main.body
    return [node for node in post_order(body) if isinstance(node, Call)]


def test_model_states_its_inputs_and_outputs(tmp_path: Path) -> None:
    loaded = load_onnx(save(_relu(), tmp_path))
    type_ = TensorType((1, 3, 4), DType.FLOAT32)
    assert loaded.name == "model"
    assert loaded.inputs == (("x", type_),)
    assert loaded.outputs == (("y0", type_),)


def test_every_call_carries_its_node(tmp_path: Path) -> None:
    (call,) = _nodes(_relu(), tmp_path)
    assert call.span == OnnxNode("model.onnx", "the_node", "Relu")


def test_a_nameless_node_is_called_by_its_output(tmp_path: Path) -> None:
    proto = _relu()
    proto.graph.node[0].name = ""
    (call,) = _nodes(proto, tmp_path)
    assert call.span == OnnxNode("model.onnx", "y0", "Relu")


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08", b"\xff" * 40])
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "broken.onnx"
    file.write_bytes(content)
    with pytest.raises(CodesignError, match=r"cannot read .*broken\.onnx"):
        load_onnx(file)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.97])
def test_a_model_that_is_cut_off_is_refused(share: float, tmp_path: Path) -> None:
    weight = np.ones((4, 64), np.float32)
    content = node_model("MatMul", {"x": X, "w": weight}, stored=("w",)).SerializeToString()
    file = tmp_path / "cut.onnx"
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(CodesignError, match=r"cannot read .*cut\.onnx"):
        load_onnx(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CodesignError, match="there is no such file"):
        load_onnx(tmp_path / "absent.onnx")


@pytest.mark.parametrize("opset", [6, 24])
def test_an_opset_out_of_range_is_refused(opset: int, tmp_path: Path) -> None:
    proto = node_model("Relu", {"x": X}, opset=opset)
    with pytest.raises(CodesignError, match=f"opset {opset}; opsets 7 to 23"):
        load_onnx(save(proto, tmp_path))


def test_all_unsupported_nodes_are_told_together(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Det", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="fine"),
        helper.make_node("Magic", ["b"], ["c"], name="second", domain="com.example"),
        helper.make_node("MaxPool", ["x"], ["d"], name="third", kernel_shape=[1], storage_order=1),
    ]
    with pytest.raises(CodesignError) as caught:
        load_onnx(save(model(nodes, {"x": X}, ["c", "d"]), tmp_path))
    text = str(caught.value)
    assert len(caught.value.diagnostics) == 3
    assert "Det (opset 17) is not supported" in text
    assert "domain 'com.example'" in text
    assert "storage_order = 1" in text
    assert "node 'first' (Det)" in text
    assert "'fine'" not in text


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([helper.make_node("Relu", ["absent"], ["y"])], "input 'absent' is made by no node"),
        ([helper.make_node("Relu", ["x"], ["z"])], "no node makes the output 'y'"),
        ([helper.make_node("Relu", ["x"], ["x"])], "the value 'x' is made twice"),
        ([helper.make_node("Add", ["x"], ["y"])], "it has 1 inputs and 1 outputs"),
        ([helper.make_node("Relu", ["x"], ["y"], beta=1)], "attribute beta is unknown"),
        ([helper.make_node("Flatten", ["x"], ["y"], axis=9)], "axis 9 is not within"),
        ([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[9])], "nn.max_pool2d"),
    ],
)
def test_a_broken_graph_is_refused(
    nodes: list[onnx.NodeProto], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CodesignError, match=message):
        load_onnx(save(model(nodes, {"x": X}, ["y"]), tmp_path))


def test_a_tensor_that_does_not_fill_its_shape_is_refused(tmp_path: Path) -> None:
    proto = node_model("Add", {"x": X, "w": X}, stored=("w",))
    proto.graph.initializer[0].dims[0] = 7
    with pytest.raises(CodesignError, match="tensor 'w'"):
        load_onnx(save(proto, tmp_path))


def test_a_weight_named_as_an_input_is_no_input(tmp_path: Path) -> None:
    proto = node_model("Add", {"x": X, "w": X}, stored=("w",))
    proto.graph.input.append(helper.make_tensor_value_info("w", 1, X.shape))
    assert [name for name, _ in load_onnx(save(proto, tmp_path)).inputs] == ["x"]


class TestExternalData:
    @staticmethod
    def _file(folder: Path, location: str, offset: int = 0) -> Path:
        proto = node_model("Add", {"x": X, "w": X}, stored=("w",))
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", X.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        return save(proto, folder)

    def test_data_beside_the_model_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "weights.bin").write_bytes(b"12345678" + (X * 2).tobytes())
        module = load_onnx(self._file(tmp_path, "weights.bin", 8)).module
        np.testing.assert_array_equal(Interpreter(module).run(x=X), X * 3)

    @pytest.mark.parametrize("location", ["../secret.bin", "a/../../secret.bin", "", "..\\x"])
    def test_data_outside_the_folder_are_refused(self, location: str, tmp_path: Path) -> None:
        (tmp_path / "secret.bin").write_bytes(X.tobytes())
        folder = tmp_path / "model"
        folder.mkdir()
        with pytest.raises(CodesignError, match="outside the model's folder"):
            load_onnx(self._file(folder, location))

    def test_an_absolute_path_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "w.bin").write_bytes(X.tobytes())
        with pytest.raises(CodesignError, match="outside the model's folder"):
            load_onnx(self._file(tmp_path, str(tmp_path / "w.bin")))

    def test_a_link_that_leads_outside_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret.bin").write_bytes(X.tobytes())
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
        with pytest.raises(CodesignError, match="outside the model's folder"):
            load_onnx(self._file(folder, "w.bin"))

    def test_data_that_end_early_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "w.bin").write_bytes(X.tobytes()[:-1])
        with pytest.raises(CodesignError, match="tensor 'w' needs 48 bytes"):
            load_onnx(self._file(tmp_path, "w.bin"))


class TestShapes:
    def test_a_leading_symbol_is_a_batch_of_one(self, tmp_path: Path) -> None:
        loaded = load_onnx(save(_symbolic("n", 3), tmp_path))
        assert loaded.inputs[0][1].shape == (1, 3)

    def test_a_given_shape_is_taken(self, tmp_path: Path) -> None:
        file = save(_symbolic("n", 3, "h"), tmp_path)
        assert load_onnx(file, shapes={"x0": (2, 3, 5)}).inputs[0][1].shape == (2, 3, 5)

    def test_a_symbol_is_bound_in_every_input(self, tmp_path: Path) -> None:
        file = save(_symbolic("n", "h", inputs=2), tmp_path)
        loaded = load_onnx(file, shapes={"x1": (2, 5)})
        assert [type_.shape for _, type_ in loaded.inputs] == [(2, 5), (2, 5)]

    def test_a_dimension_without_value_is_named(self, tmp_path: Path) -> None:
        file = save(_symbolic("n", 3, "height", "width"), tmp_path)
        with pytest.raises(CodesignError) as caught:
            load_onnx(file)
        text = str(caught.value)
        assert "dimension 2 (height) of input 'x0' has no value" in text
        assert "dimension 3 (width) of input 'x0' has no value" in text
        assert 'shapes={"x0": (…, 3, …, …)}' in text

    @pytest.mark.parametrize(
        ("shapes", "message"),
        [
            ({"x0": (1, 4, 5)}, "dimension 1 is fixed to 3"),
            ({"x0": (1, 3)}, "has 3 dimensions, 2 are given"),
            ({"z": (1,)}, "'z', which is no input"),
            ({"x0": (1, 3, 5), "x1": (1, 3, 6)}, "h is 5 elsewhere"),
        ],
    )
    def test_a_shape_that_does_not_fit_is_refused(
        self, shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path
    ) -> None:
        file = save(_symbolic("n", 3, "h", inputs=2), tmp_path)
        with pytest.raises(CodesignError, match=message):
            load_onnx(file, shapes=shapes)


def test_shape_arithmetic_is_gone(tmp_path: Path) -> None:
    one, minus = (numpy_helper.from_array(np.array([v]), n) for v, n in ((1, "one"), (-1, "minus")))
    zero = numpy_helper.from_array(np.array([0]), "zero")
    nodes = [
        helper.make_node("Constant", [], ["k1"], value=one),
        helper.make_node("Constant", [], ["k0"], value=zero),
        helper.make_node("Constant", [], ["rest"], value=minus),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["cast"], to=onnx.TensorProto.INT32),
        helper.make_node("Slice", ["cast", "k0", "k1"], ["batch"]),
        helper.make_node("Cast", ["batch"], ["batch64"], to=onnx.TensorProto.INT64),
        helper.make_node("Concat", ["batch64", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    calls = _nodes(model(nodes, {"x": X}, ["y"]), tmp_path)
    assert [call.callee.name for call in calls if isinstance(call.callee, OpRef)] == ["reshape"]


def test_upsample_is_a_nearest_resize(tmp_path: Path) -> None:
    image = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    scales = np.array([1, 1, 2, 1], np.float32)
    proto = node_model("Upsample", {"x": image, "s": scales}, stored=("s",), opset=9)
    module = load_onnx(save(proto, tmp_path)).module
    wanted = np.repeat(image, 2, axis=2)
    np.testing.assert_array_equal(Interpreter(module).run(x=image), wanted)
