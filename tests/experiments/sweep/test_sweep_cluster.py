"""Points on a Dask cluster of one worker."""

from __future__ import annotations

import pytest
from distributed import LocalCluster

from codesign.accel.presets import preset
from codesign.diagnostics import CodesignError
from experiments.sweep.measure import measure
from experiments.sweep.network import prepare
from experiments.sweep.point import Point
from experiments.sweep.workers import Cluster


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_points_run_on_a_cluster() -> None:
    networks = {"digits": prepare("digits", lambda _: None)}
    point = Point(network="digits", target="accel", config=preset("edge"))
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as local:
        workers = Cluster(networks, local.scheduler_address)
        found = workers.submit(point).result(timeout=300).row
        count = workers.count
        workers.close()
    assert count == 1
    assert found.cycles == measure(point, networks["digits"]).row.cycles


def test_no_scheduler_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.sweep.workers._CONNECT_S", 1)
    with pytest.raises(CodesignError, match="no Dask scheduler answers"):
        Cluster({}, "tcp://127.0.0.1:9")
