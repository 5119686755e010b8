"""A run's timeline as a Chrome trace: open it in Perfetto or chrome://tracing.

One row per unit, one event per instruction, one microsecond per cycle.

Source: "Trace Event Format", sections "Complete Events" and "Metadata Events".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from codesign.accel.assembly import format_instruction
from codesign.accel.config import AccelConfig
from codesign.accel.isa import Unit
from codesign.accel.program import Program
from codesign.sim.simulator import Timeline


def chrome_trace(
    program: Program,
    timeline: Timeline,
    config: AccelConfig,
    labels: Sequence[str] | None = None,
) -> str:
    """Return JSON text of the timeline.

    `labels[i]` says what instruction i belongs to, for example its layer.
    """
    events: list[dict[str, Any]] = [_unit_name(unit) for unit in Unit]
    for index, instruction in enumerate(program.instructions):
        text = format_instruction(instruction)
        begin, end = int(timeline.start[index]), int(timeline.end[index])
        arguments: dict[str, Any] = {"instruction": index, "text": text}
        if labels is not None:
            arguments["layer"] = labels[index]
        events.append(
            {
                "name": text.split(maxsplit=1)[0] if labels is None else labels[index],
                "ph": "X",
                "pid": 0,
                "tid": int(instruction.unit),
                "ts": begin,
                "dur": end - begin,
                "args": arguments,
            }
        )
    other = {"clock_mhz": config.clock_mhz, "digest": config.digest, "unit": "1 us = 1 cycle"}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other})


def _unit_name(unit: Unit) -> dict[str, Any]:
    return {
        "name": "thread_name",
        "ph": "M",
        "pid": 0,
        "tid": int(unit),
        "args": {"name": unit.name.lower()},
    }
