"""Native networks beside onnxruntime, one thread each, interleaved in one process.

    python -m tests.benchmarks.cpu_networks network.onnx[=1x3x224x224] …

Times are of the thread's processor clock, so that a busy machine disturbs them less.
"""

from __future__ import annotations

import sys
from time import perf_counter, thread_time

import numpy as np
import onnxruntime

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.llvm.cpu import compile_cpu
from codesign.compiler.frontend.onnx import load_onnx
from codesign.compiler.pipelines import optimize
from codesign.dtypes import Array
from host_runtime.cpu import CpuFunction

ROUNDS = 40


def _session(path: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def measure(path: str, shape: tuple[int, ...] | None) -> str:
    """Return one line: both times, their ratio, the difference of results and the compile time."""
    session = _session(path)
    name = session.get_inputs()[0].name
    model = load_onnx(path, shapes={} if shape is None else {name: shape})
    began = perf_counter()
    main = optimize(model.module)
    native = CpuFunction(compile_cpu(main.main, infer_types(main)))
    compile_s = perf_counter() - began
    x = np.random.default_rng(0).standard_normal(model.inputs[0][1].static_shape)
    image: Array = x.astype(np.float32)
    (found, *_), expected = native(image), session.run(None, {name: image})[0]
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    ours, theirs = [], []
    for _ in range(ROUNDS):
        start = thread_time()
        native(image)
        middle = thread_time()
        session.run(None, {name: image})
        ours.append(middle - start)
        theirs.append(thread_time() - middle)
    return (
        f"{path}: {min(ours) * 1e3:.3f} ms, onnxruntime {min(theirs) * 1e3:.3f} ms, "
        f"ratio {min(ours) / min(theirs):.2f}, "
        f"difference {error:.1e}, compiled in {compile_s:.1f} s"
    )


def main(arguments: list[str]) -> None:
    for argument in arguments:
        path, _, dimensions = argument.partition("=")
        shape = tuple(int(each) for each in dimensions.split("x")) if dimensions else None
        print(measure(path, shape))


if __name__ == "__main__":
    main(sys.argv[1:])
