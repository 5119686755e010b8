"""The networks are what they say, their data is labelled rightly, and splits do not meet."""

from __future__ import annotations

import hashlib
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest

from codesign.diagnostics import CodesignError
from experiments.networks import answers, dcgan, direction, orientation, packages, resnet18, resnets
from experiments.networks.digits import data as digits
from experiments.networks.digits import train
from experiments.networks.efficientnet import data as photographs
from experiments.networks.packages import PackagedFile, PackageUnavailableError, Wheel, fetch
from experiments.networks.registry import NETWORKS, network
from experiments.networks.samples import Split


def _onnxruntime_accuracy(name: str, count: int) -> float:
    chosen = network(name)
    data = chosen.samples(Split.EVALUATION, count, packages.BUILD)
    logits = answers.onnxruntime_answers(chosen.model_file(packages.BUILD), data.inputs)
    return float((logits.argmax(1) == data.labels).mean())


@pytest.mark.needs_onnxruntime
def test_digits_network_names_at_least_97_percent_rightly() -> None:
    assert _onnxruntime_accuracy("digits", 360) >= 0.97


@pytest.mark.needs_onnxruntime
@pytest.mark.needs_models("direction")
def test_direction_labels_are_what_the_published_network_sees() -> None:
    assert _onnxruntime_accuracy("direction", 40) >= 0.95


@pytest.mark.needs_onnxruntime
@pytest.mark.needs_models("orientation")
def test_orientation_labels_are_what_the_published_network_sees() -> None:
    assert _onnxruntime_accuracy("orientation", 16) >= 0.95


@pytest.mark.slow
@pytest.mark.needs_onnxruntime
@pytest.mark.needs_models("orientation", "direction")
@pytest.mark.parametrize("name", ["orientation", "direction"])
def test_two_hundred_labels_are_what_the_published_network_sees(name: str) -> None:
    assert _onnxruntime_accuracy(name, 200) >= 0.98


@pytest.mark.needs_onnxruntime
@pytest.mark.needs_models("efficientnet-lite0")
def test_photograph_labels_are_what_the_published_network_sees() -> None:
    assert _onnxruntime_accuracy("efficientnet-lite0", 20) >= 0.85


@pytest.mark.parametrize("name", ["digits", "resnet18"])
def test_samples_repeat_and_splits_are_disjoint(name: str) -> None:
    draw = network(name).samples
    first = draw(Split.EVALUATION, 6, packages.BUILD).inputs
    again = draw(Split.EVALUATION, 6, packages.BUILD).inputs
    other = draw(Split.CALIBRATION, 6, packages.BUILD).inputs
    np.testing.assert_array_equal(first, again)
    assert not {each.tobytes() for each in first} & {each.tobytes() for each in other}


@pytest.mark.needs_models("orientation", "direction", "efficientnet-lite0")
@pytest.mark.parametrize("name", ["orientation", "direction", "efficientnet-lite0"])
def test_fetched_samples_repeat_and_splits_are_disjoint(name: str) -> None:
    test_samples_repeat_and_splits_are_disjoint(name)


@pytest.mark.parametrize("each", NETWORKS, ids=lambda each: each.name)
def test_samples_have_the_declared_shape(each) -> None:
    reason = each.missing()
    if reason is not None:
        pytest.skip(reason)
    data = each.samples(Split.CALIBRATION, 2, packages.BUILD)
    assert data.inputs.shape == (2, *each.input_shape[1:])
    assert data.inputs.dtype == np.float32


def test_digits_splits_cover_every_digit_once() -> None:
    parts = [
        digits.samples(Split.EVALUATION, 1 << 20),
        digits.samples(Split.CALIBRATION, 1 << 20),
        digits.training(),
    ]
    assert [len(part) for part in parts] == [360, 128, 1309]


def test_windows_are_squares_within_the_photograph() -> None:
    rng, size = np.random.default_rng(0), (640, 427)
    boxes = [photographs.window(rng, size, (0.75, 1.0)) for _ in range(200)]
    assert all(0 <= b[0] < b[2] <= 640 and 0 <= b[1] < b[3] <= 427 for b in boxes)
    assert all(b[2] - b[0] == b[3] - b[1] >= 320 for b in boxes)


@pytest.mark.needs_models("efficientnet-lite0")
def test_calibration_and_evaluation_show_different_photographs() -> None:
    files = {split: photographs.photographs(split) for split in Split}
    assert {len(each) for each in files.values()} == {10, 16}
    digests = {
        split: {hashlib.sha256(path.read_bytes()).digest() for path, _ in each}
        for split, each in files.items()
    }
    assert not digests[Split.CALIBRATION] & digests[Split.EVALUATION]
    assert photographs.samples(Split.EVALUATION, 3).labels.tolist() == [541, 630, 741]
    assert photographs.samples(Split.CALIBRATION, 11).labels is None


def test_orientation_preprocessing_by_hand() -> None:
    image = np.zeros((256, 300, 3), np.uint8)
    image[..., 2] = 255  # blue alone: first channel of BGR
    tensor = orientation.preprocess(image)
    assert tensor.shape == (3, 224, 224)
    assert tensor[0, 0, 0] == pytest.approx((1 - 0.485) / 0.229, rel=1e-6)
    assert tensor[1, 0, 0] == pytest.approx(-0.456 / 0.224, rel=1e-6)
    assert tensor[2, 0, 0] == pytest.approx(-0.406 / 0.225, rel=1e-6)


def test_direction_preprocessing_by_hand() -> None:
    image = np.full((48, 100, 3), 255, np.uint8)
    tensor = direction.preprocess(image)
    assert (tensor[:, :, :100] == 1).all()
    assert (tensor[:, :, 100:] == 0).all()


def test_resnet18_has_the_published_number_of_parameters() -> None:
    model = resnet18.to_onnx()
    learned = [w for w in model.graph.initializer if not w.name.endswith(("mean", "variance"))]
    assert sum(prod(w.dims) for w in learned) == 11_689_512  # torchvision's resnet18


@pytest.mark.parametrize(("depth", "parameters"), [(34, 21_797_672), (50, 25_557_032)])
def test_deeper_resnets_have_the_published_numbers_of_parameters(
    depth: int, parameters: int
) -> None:
    graph = resnets.to_onnx(depth).graph
    learned = [w for w in graph.initializer if not w.name.endswith(("mean", "variance"))]
    assert sum(prod(w.dims) for w in learned) == parameters  # torchvision's resnet34, resnet50


def test_dcgan_doubles_its_planes_to_64x64_pixels() -> None:
    graph = onnx.shape_inference.infer_shapes(dcgan.to_onnx(), strict_mode=True).graph
    shapes = {
        value.name: tuple(each.dim_value for each in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.output)
    }
    sides = [shapes[node.output[0]] for node in graph.node if node.op_type == "ConvTranspose"]
    assert sides == [(1, 512, 8, 8), (1, 256, 16, 16), (1, 128, 32, 32), (1, 3, 64, 64)]


def test_committed_digits_network_has_the_shape_that_train_writes() -> None:
    committed = onnx.load(train.MODEL).graph
    parameters = {k: np.zeros(s, np.float32) for k, s in train._SHAPES.items()}
    written = train.to_onnx(parameters).graph
    assert [n.op_type for n in committed.node] == [n.op_type for n in written.node]
    assert [tuple(w.dims) for w in committed.initializer] == [
        tuple(w.dims) for w in written.initializer
    ]


def test_training_gradients_agree_with_finite_differences() -> None:
    rng = np.random.default_rng(5)
    parameters = {
        name: train._initial(rng, shape) + rng.normal(0, 0.05, shape)
        for name, shape in train._SHAPES.items()
    }
    images, labels = rng.normal(0, 1, (4, 1, 8, 8)), np.array([3, 1, 4, 1])

    def loss() -> float:
        logits = train._forward(parameters, images)["logits"]
        shifted = logits - logits.max(1, keepdims=True)
        log_shares = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        return float(-log_shares[np.arange(4), labels].mean())

    gradients = train._gradients(parameters, images, labels)
    for name, gradient in gradients.items():
        position = tuple(int(rng.integers(0, size)) for size in gradient.shape)
        kept, step = parameters[name][position], 1e-6
        parameters[name][position] = kept + step
        above = loss()
        parameters[name][position] = kept - step
        slope = (above - loss()) / (2 * step)
        parameters[name][position] = kept
        assert gradient[position] == pytest.approx(slope, rel=1e-3, abs=1e-6), name


def test_an_unknown_network_is_named_with_the_known_ones() -> None:
    with pytest.raises(CodesignError, match=r"there is no network 'lenet'\n.*orientation"):
        network("lenet")


def _wanted(sha256: str = "0" * 64) -> PackagedFile:
    wheel = Wheel(
        package="font-lato",
        version="0.1.0",
        file_name="font_lato-0.1.0-py3-none-any.whl",
        sha256="1" * 64,
        licence="OFL-1.1",
    )
    return PackagedFile(wheel=wheel, member="a/b.ttf", sha256=sha256)


def test_an_unreachable_registry_is_reported_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(
        PackageUnavailableError, match=r"cannot download font-lato==0\.1\.0"
    ) as raised:
        fetch(_wanted(), tmp_path)
    assert "help: connect to PyPI" in str(raised.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_wheel_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "wheels" / _wanted().wheel.file_name
    wheel.parent.mkdir()
    wheel.write_bytes(b"not a wheel")
    with pytest.raises(PackageUnavailableError, match="is not the file that was pinned"):
        fetch(_wanted(), tmp_path)
    assert not _wanted().path(tmp_path).exists()
