"""The estimate of a launch, for the panel of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.report.alignment import Places
from tileiras.report.model import Roofline, StallAt, Timing
from tileiras.support.named_tuple import NamedTuple

MOST_SPANS = 400
"""Most spans of one track of the timeline: shorter neighbours are merged."""
MOST_TRACKS = 40


class Launch(NamedTuple):
    """The launch to estimate."""

    entry: str | None
    """None if the source has one kernel."""
    grid: tuple[int, ...]
    args: Sequence[Any]
    gpu: str


def estimated(ptx: str, entry: str, metadata: Mapping[str, Any] | None, launch: Launch, places: Places) -> Timing:
    """Estimate a launch; raises the errors of `tileiras.sim.estimate`."""
    from tileiras.sim import estimate

    result = estimate(ptx, entry, launch.grid, launch.args, gpu=launch.gpu, metadata=metadata)
    stalls = tuple(
        StallAt((places.number(row.file or "", row.line),), row.file or "", row.line, row.share, dict(row.reasons))
        for row in result.by_source()
    )
    data = result.to_json()
    return Timing(
        launch.gpu, launch.grid, str(result), data, stalls, tuple(tracks(result.trace)),
        roofline(result.utilization),
    )


def tracks(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tracks of Chrome's trace events as spans, in the order of their names in the trace; short neighbours of
    one activity are merged."""
    names: dict[tuple[int, int], str] = {}
    spans: dict[tuple[int, int], list[list[Any]]] = {}
    for event in trace.get("traceEvents", ()):
        key = (event.get("pid", 0), event.get("tid", 0))
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            names[key] = str(event["args"]["name"])
        elif event.get("ph") == "X":
            spans.setdefault(key, []).append([event["ts"], event["dur"], str(event["name"])])
    order = [key for key in names if key in spans] + [key for key in spans if key not in names]
    result = []
    for key in order[:MOST_TRACKS]:
        result.append({"name": names.get(key, f"{key[0]}.{key[1]}"), "spans": _merge(sorted(spans[key]))})
    return result


def _merge(spans: list[list[Any]]) -> list[list[Any]]:
    """At most about MOST_SPANS spans: gaps below the resolution of a drawing are closed."""
    if len(spans) <= MOST_SPANS:
        return spans
    least = (spans[-1][0] + spans[-1][1] - spans[0][0]) / MOST_SPANS
    result: list[list[Any]] = []
    for start, length, label in spans:
        last = result[-1] if result else None
        if last is not None and start - (last[0] + last[1]) < least and (last[1] < least or last[2] == label):
            last[1] = start + length - last[0]
        else:
            result.append([start, length, label])
    return result


COMPUTING = ("tensor", "FMA", "FP16", "FP64", "MUFU", "IMAD", "ALU")
"""Compute units; the roofline is drawn for the busiest of them."""


def roofline(utilization: Mapping[str, float]) -> Roofline:
    """Throughput of the launch relative to the peaks; 0 for unused units."""
    unit = max(COMPUTING, key=lambda name: utilization.get(name, 0.0))
    return Roofline(unit, utilization.get(unit, 0.0), utilization.get("L2", 0.0), utilization.get("DRAM", 0.0))
