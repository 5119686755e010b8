"""Answers and figure of the schemes' study, from its points alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure

from codesign.compiler.quantization import RangeMethod
from experiments.study.question import Answers
from experiments.study.schemes.point import FP32, Outcome

SCHEMES: Final = ("8/16", "8/32", "16/32")
_COLOURS: Final = {FP32: "#777777", "8/16": "#c44e52", "8/32": "#4c72b0", "16/32": "#55a868"}


def plain(points: Sequence[Outcome]) -> dict[tuple[str, str], Outcome]:
    """Return the points of each network's own configuration, by network and scheme."""
    return {
        (each.network, each.scheme): each
        for each in points
        if each.ranges == RangeMethod.MSE and not each.power_of_two
    }


def answers(points: Sequence[Outcome]) -> Answers:
    """Return accuracy lost and time won of every scheme, and what other ranges lose."""
    found: dict[str, float] = {}
    known = plain(points)
    for (network, scheme), point in known.items():
        exact = known[network, FP32]
        if scheme == FP32:
            continue
        if point.right_top1_percent is not None and exact.right_top1_percent is not None:
            lost = exact.right_top1_percent - point.right_top1_percent
            found[f"{network} in {scheme}: top-1 lost, percent points"] = lost
        if point.time_ms is not None and exact.time_ms is not None:
            found[f"{network} in {scheme}: times faster than fp32"] = exact.time_ms / point.time_ms
    for network in dict.fromkeys(each.network for each in points):
        narrow, wide = known[network, "8/16"].time_ms, known[network, "8/32"].time_ms
        if narrow is not None and wide is not None:
            found[f"{network}: 8/16 times faster than 8/32"] = wide / narrow
    for scheme in SCHEMES:
        others = [each for each in points if each.scheme == scheme and each.ranges != "global"]
        shares = [each.same_top1_percent for each in others]
        worst = min((each for each in shares if each is not None), default=100.0)
        found[f"worst in {scheme} but for one range for all: top-1 as fp32, percent"] = worst
    return found


def figure(points: Sequence[Outcome]) -> Figure:
    """Return time by scheme, and accuracy by how ranges are chosen."""
    drawn = Figure(figsize=(10, 4), layout="constrained")
    left, right = drawn.subplots(1, 2)
    known = plain(points)
    networks = list(dict.fromkeys(network for network, _ in known))
    schemes = (FP32, *SCHEMES)
    for place, scheme in enumerate(schemes):
        bars = [
            (known[network, FP32].time_ms or 0) / (known[network, scheme].time_ms or 1)
            for network in networks
        ]
        across = [index + 0.2 * place for index in range(len(networks))]
        left.bar(across, bars, width=0.2, label=scheme, color=_COLOURS[scheme])
    left.set_xticks([index + 0.3 for index in range(len(networks))], networks)
    left.set_ylabel("speed, fp32 = 1")
    left.legend(title="bits of values / of sums", fontsize=8)
    ranges = list(dict.fromkeys(each.ranges for each in points))
    for scheme in SCHEMES:
        for power_of_two, style in ((False, "o-"), (True, "s--")):
            ratios = [_sqnr(points, scheme, each, power_of_two=power_of_two) for each in ranges]
            label = f"{scheme}{', powers of two' if power_of_two else ''}"
            right.plot(ranges, ratios, style, label=label, color=_COLOURS[scheme])
    right.set_ylabel("digits: signal over error of the logits, dB")
    right.set_xlabel("how ranges are chosen")
    right.legend(fontsize=7)
    return drawn


def _sqnr(points: Sequence[Outcome], scheme: str, ranges: str, *, power_of_two: bool) -> float:
    for each in points:
        is_same = (each.scheme, each.ranges) == (scheme, ranges)
        if each.network == "digits" and is_same and each.power_of_two == power_of_two:
            return float("nan") if each.sqnr_db is None else each.sqnr_db
    return float("nan")
