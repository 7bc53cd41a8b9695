"""The verdict of a check, for a report: NAME.check.json, whose lines are those of NAME.cuda_tile.mlir; and the
certificate of order of NAME.json, which names operations of NAME.tileaa.mlir."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from tileiras.check import order
from tileiras.check import verdict as checked
from tileiras.report.model import Said, Verdict
from tileiras.support.files import read_if_there


def of_artifact(stem: str, ptx: str, places: Callable[[str], tuple[int, ...]]) -> Verdict:
    """The verdict on a kernel's PTX; `places` returns the lines of the source for a place.

    Raises ValueError if there is no verdict; its message tells how to get one.
    """
    data = read_if_there(stem + ".check.json")
    if data is None:
        raise ValueError("not available: build with check=1")
    try:
        (result,) = (checked.Verdict.from_json(each) for each in json.loads(data))
    except (ValueError, TypeError):
        raise ValueError("NAME.check.json is damaged") from None
    if result.ptx != hashlib.sha256(ptx.encode()).hexdigest():
        raise ValueError("it is of other PTX: build with check=1")

    def finding(kind: str, location: str, message: str) -> Said:
        return Said(kind, places(location) if location.count(":") > 1 else (), message)

    return Verdict(
        result.status, len(result.launches), result.right, result.worst_ulps, dict(result.coverage),
        tuple(finding(each.kind, each.location, each.message) for each in result.findings),
        tuple(finding("not covered", each.location, f"{each.operation}: {each.case}") for each in result.uncovered),
    )  # fmt: skip


def of_order(launch: dict[str, Any] | None, places: Callable[[int], tuple[int, ...]]) -> tuple[Said, ...]:
    """The certificate of order in the kernel's row of NAME.json; `places` maps an operation number to lines of the
    source."""
    if launch is None or "order" not in launch:
        return ()
    lines = []
    for each in order.statements(launch["order"]):
        (number, *_) = each.row["ops"] if each.kind == "output" else (each.row["op"],)
        lines.append(Said(each.kind, places(number), each.text))
    return tuple(lines)
