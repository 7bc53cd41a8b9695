"""Verdicts for tests of their reports."""

from tileiras.check.coverage import Uncovered
from tileiras.check.verdict import Finding, LaunchReport, Verdict


def launch(number: int, status: str) -> LaunchReport:
    return LaunchReport(number, (2, 1, 1), ("float32[9]", "1"), "whole", status, (None, 0, 1), 0.5)


RIGHT = Verdict(
    "right", "scale", "sm_90", (launch(0, "right"), launch(1, "fault-of-program")),
    (Finding("program", "reads outside", "kernels/a b.mlir:7:3", 1), Finding("unjudged", "the time is up")),
    {"operations": (3, 4)}, (Uncovered("cuda_tile.if", "kernels/a b.mlir:8:1", "taken"),), 0.5, 0,
    "kernels/a b.mlir:2:1", "00",
)  # fmt: skip
WRONG = Verdict(
    "wrong", "k", "sm_100", (launch(0, "right"), launch(1, "wrong")),
    (Finding("value", "1 < 2 & \x01 \"three\"", "k.mlir:4:5", 1), Finding("emulation", "race", "", 1, 12)),
    location="k.mlir:1:1",
)  # fmt: skip
UNJUDGED = Verdict("inconclusive", "none", "sm_80", findings=(Finding("no-launch", "no size fits", "n.mlir:3:0"),))
ALL = (RIGHT, WRONG, UNJUDGED)
