"""The files of a comparison: figures, tables, trace, Verilog; written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from codesign.ir.executable.executable import Executable
from codesign.sim.simulator import Outcome
from codesign.sim.trace import chrome_trace
from experiments.road.compare import Comparison
from experiments.road.report import as_json
from experiments.road.roofline import draw_roofline
from hardware.generate import generate


def write_artefacts(comparison: Comparison, folder: Path) -> tuple[Path, ...]:
    """Fill a folder with report.json, layers.csv, roofline.png, trace*.json and rtl/.

    An older folder of the same name is replaced once everything is written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        new = Path(name) / folder.name
        new.mkdir()
        report = as_json(comparison)
        (new / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (new / "layers.csv").write_text(_csv(report["layers"]), encoding="utf-8")
        draw_roofline(
            comparison.layers(),
            comparison.config,
            comparison.built.subject.title,
            new / "roofline.png",
        )
        for index, text in enumerate(program_traces(comparison.executable, comparison.outcomes)):
            (new / f"trace{index}.json").write_text(text, encoding="utf-8")
        (new / "config.toml").write_text(comparison.config.to_toml(), encoding="utf-8")
        generate(comparison.config, new / "rtl")
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))


def program_traces(executable: Executable, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the Chrome trace of each accelerator program, given what the cycle simulator said."""
    texts = []
    for step, outcome in zip(executable.accel_steps, outcomes, strict=True):
        assert outcome.timeline is not None, "the cycle simulator sees instructions"
        kernel = step.kernel
        labels = [""] * len(kernel.program.instructions)
        for record in kernel.layers:
            labels[record.first : record.last] = [record.name] * (record.last - record.first)
        texts.append(chrome_trace(kernel.program, outcome.timeline, kernel.config, labels))
    return texts


def _csv(rows: list[dict[str, object]]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
