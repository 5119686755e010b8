"""Sweeps of the digits network: rows, refusals, resuming, choosing, reporting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.counters import Counters
from codesign.accel.presets import preset
from codesign.diagnostics import CodesignError
from experiments.sweep.energy import energy
from experiments.sweep.measure import measure
from experiments.sweep.network import Prepared, from_bytes, prepare
from experiments.sweep.pareto import front
from experiments.sweep.plan import Plan, Search, parse_plan
from experiments.sweep.point import Point, points
from experiments.sweep.report import write_report
from experiments.sweep.row import CONTINGENT, Row
from experiments.sweep.run import points_left, run_points
from experiments.sweep.search import check_search, search
from experiments.sweep.store import Store
from experiments.sweep.workers import Inline

PLAN = parse_plan(
    """
    networks = ["digits"]
    targets = ["accel", "cpu"]
    preset = "edge"
    [grid]
    bus_bits = [32, 64]
    wgt_depth = [2, 512]
    """
)


@pytest.fixture(scope="module")
def networks() -> Mapping[str, Prepared]:
    return {"digits": prepare("digits", lambda _: None)}


def _fixed(row: Row) -> Row:
    exact = replace(row, compile_s=None, host_ms=None)
    return replace(exact, time_ms=None if row.target == "cpu" else row.time_ms)


def test_a_point_has_cycles_area_and_energy(networks: Mapping[str, Prepared]) -> None:
    point = Point(network="digits", target="accel", config=preset("edge"))
    measured = measure(point, networks["digits"])
    row = measured.row
    assert row.status == "done"
    assert row.cycles is not None
    assert row.macs == 84_608
    assert row.time_ms == pytest.approx(row.cycles / preset("edge").clock_mhz / 1e3)
    assert sum(layer.macs for layer in measured.layers) == row.macs
    assert row.energy_uj == pytest.approx(
        (row.mac_uj or 0) + (row.sram_uj or 0) + (row.dram_uj or 0)
    )


def test_a_point_that_is_refused_is_a_row_with_its_reason(
    networks: Mapping[str, Prepared],
) -> None:
    config = replace(preset("edge"), bus_bits=48)
    row = measure(Point(network="digits", target="accel", config=config), networks["digits"]).row
    assert row.status == "refused"
    assert "bus_bits" in row.reason
    assert row.cycles is None


def test_energy_is_the_sum_of_hand_counted_operations() -> None:
    config = AccelConfig(inp_depth=512, wgt_depth=32, acc_depth=128, out_depth=512)
    counters = Counters(cycles=100, macs=2560, bytes_read=1000, bytes_written=600)
    found = energy(config, counters)
    # 2560 products of 8 bits and sums of 32; 10 tiles of inp and wgt (8 KiB) and acc (8 KiB) twice.
    assert found.mac_uj == pytest.approx(2560 * (0.2 + 0.1) / 1e6)
    assert found.sram_uj == pytest.approx(10 * (10 * 2 + 10 * 32 + 2 * 10 * 8) / 1e6)
    assert found.dram_uj == pytest.approx(1600 / 8 * 1300 / 1e6)


def test_a_sweep_is_written_and_gone_on_with(
    networks: Mapping[str, Prepared], tmp_path: Path
) -> None:
    every = list(points(PLAN))
    with Store(tmp_path / "whole.duckdb") as store:
        run_points(points_left(every, store), store, lambda: Inline(networks), networks)
        whole = store.rows()
    with Store(tmp_path / "parts.duckdb") as store:
        run_points(every[:2], store, lambda: Inline(networks), networks)
    with Store(tmp_path / "parts.duckdb") as store:
        left = points_left(every, store)
        assert left == every[2:]
        run_points(left, store, lambda: Inline(networks), networks)
        assert list(map(_fixed, store.rows())) == list(map(_fixed, whole))
        assert points_left(every, store) == []


def test_a_point_is_written_whole_or_not_at_all(
    networks: Mapping[str, Prepared], tmp_path: Path
) -> None:
    path = tmp_path / "results.duckdb"
    measured = measure(list(points(PLAN))[1], networks["digits"])
    with Store(path) as store:
        store._database.begin()
        store._database.execute("INSERT INTO layers (point) VALUES ('torn')")
    with Store(path) as store:
        assert store.layers("torn") == []
        store.add(measured)
        assert store.layers(measured.row.point) == list(measured.layers)


def test_a_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE points (x INTEGER)")
    with pytest.raises(CodesignError, match="another version"):
        Store(path)
    path.write_text("no database")
    with pytest.raises(CodesignError, match="cannot use"):
        Store(path)


def test_a_search_makes_the_same_choices_again(
    networks: Mapping[str, Prepared], tmp_path: Path
) -> None:
    plan = replace(PLAN, targets=("accel",), search=Search(trials=6, seed=1))
    found = []
    for name in ("one", "two"):
        with Store(tmp_path / f"{name}.duckdb") as store:
            search(plan, store, networks)
            found.append(store.known())
    with Store(tmp_path / "one.duckdb") as store:
        search(plan, store, {})
    assert found[0] == found[1] != set()


def test_a_search_without_choices_is_refused() -> None:
    with pytest.raises(CodesignError, match="grid has none"):
        check_search(Plan(networks=("digits",), search=Search(trials=1)))


def test_networks_reach_workers_unchanged(networks: Mapping[str, Prepared]) -> None:
    point = list(points(PLAN))[1]
    received = from_bytes(networks["digits"].to_bytes())
    assert _fixed(measure(point, received).row) == _fixed(measure(point, networks["digits"]).row)


def test_the_front_is_what_nothing_beats() -> None:
    def row(name: str, time_ms: float | None, lut_count: int) -> Row:
        return Row(
            point=name, network="n", target="accel", configuration="", status="done",
            time_ms=time_ms, lut_count=lut_count,
        )  # fmt: skip

    rows = [row("a", 1, 9), row("b", 2, 5), row("c", 3, 5), row("d", 3, 1), row("e", None, 0)]
    assert [each.point for each in front(rows, ("time_ms", "lut_count"))] == ["a", "b", "d"]


def test_the_report_needs_no_other_file(networks: Mapping[str, Prepared], tmp_path: Path) -> None:
    with Store(tmp_path / "results.duckdb") as store:
        run_points(list(points(PLAN)), store, lambda: Inline(networks), networks)
        report = write_report(PLAN, store, tmp_path).read_text(encoding="utf-8")
    assert report.count("<svg") == report.count("</svg>") == 4
    assert "bus_bits 32, wgt_depth 512" in report
    assert "src=" not in report
    assert 'href="http' not in report
    assert len(list((tmp_path / "figures").glob("*.png"))) == 4


@pytest.mark.slow
def test_rows_survive_a_kill(tmp_path: Path) -> None:
    plan = Path("experiments/sweep/example.toml").resolve()
    command = [sys.executable, "-m", "codesign.cli.main", "sweep", str(plan), "--workers", "1"]

    def run(folder: str) -> list[str]:
        return [*command, "--out", str(tmp_path / folder)]

    process = subprocess.Popen(run("killed"), start_new_session=True, stderr=subprocess.DEVNULL)
    log = tmp_path / "killed" / "results.duckdb.wal"
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if log.exists() and log.stat().st_size > 100_000:
            break
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with Store(tmp_path / "killed" / "results.duckdb") as store:
        assert 0 < len(store.known()) < 73
    subprocess.run(run("killed"), check=True, timeout=900)
    subprocess.run(run("whole"), check=True, timeout=900)
    with Store(tmp_path / "killed" / "results.duckdb") as one:
        found = list(map(_fixed, one.rows()))
    with Store(tmp_path / "whole" / "results.duckdb") as other:
        assert found == list(map(_fixed, other.rows()))
    assert set(CONTINGENT) == {"compile_s", "host_ms"}
