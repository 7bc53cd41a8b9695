"""The plans that a compiler's user can choose between for a kernel's loops, by name."""

from __future__ import annotations

import argparse

from tileiras.schedule.strategy import Loads, Overlap, Strategy, Variant

Plan = dict[str, str | int]

RINGS, AGENTS = Strategy(Loads.ALL_WARPS).options(), Strategy(Loads.AGENT).options()
LIGHT = Strategy(Loads.AGENT, Variant.LIGHT).options()
OVERLAP = Strategy(Loads.ALL_WARPS, overlap=Overlap.MODEL).options()
HOST, DEVICE = {"tensor_maps": "host"}, {"tensor_maps": "device"}

PLANS: dict[str, Plan] = {
    "default": {},
    "none": Strategy(Loads.NONE).options(),
    "plain": RINGS,
    "boxes": RINGS | HOST,
    "device-boxes": RINGS | DEVICE,
    "overlap": OVERLAP,
    "overlap-boxes": OVERLAP | HOST,
    "agents": AGENTS,
    "agents-boxes": AGENTS | HOST,
    "agents-device-boxes": AGENTS | DEVICE,
    "light": LIGHT,
    "light-boxes": LIGHT | HOST,
    "clusters": AGENTS | HOST | {"num_ctas": 2},
    "auto": Strategy(Loads.BY_RULE).options() | HOST,
    "auto-device": Strategy(Loads.BY_RULE).options() | DEVICE,
}
"""Options of `tileiras.compile`: the defaults, loads where they stand, loads that run ahead in plain
rings, in boxes of tensor maps that the host makes or the device, the same with operations of several iterations at a
time, loads by an agent, by an agent in boxes of either kind, by an agent without overlapping iterations, in boxes with
two CTAs for each tile block, and the choice of the compiler's rule with one, in boxes of either kind (`default` is the
same with maps by the compiler's choice)."""


def plans(names: str) -> dict[str, Plan]:
    """Those of a list separated by commas, an option's value.  Raises ArgumentTypeError."""
    wanted = [name for name in names.split(",") if name]
    for name in wanted:
        if name not in PLANS:
            raise argparse.ArgumentTypeError(f"unknown plan {name}: accepted are {', '.join(PLANS)}")
    return {name: PLANS[name] for name in wanted}
