"""The plans that a compiler's user can choose between for a kernel's loops, by name."""

from __future__ import annotations

import argparse

Plan = dict[str, str | int]

PLANS: dict[str, Plan] = {
    "default": {},
    "none": {"pipeline_strategy": "none"},
    "plain": {"pipeline_strategy": "unspecialize"},
    "boxes": {"pipeline_strategy": "unspecialize", "tensor_maps": "host"},
    "device-boxes": {"pipeline_strategy": "unspecialize", "tensor_maps": "device"},
    "overlap": {"pipeline_strategy": "unspecialize", "v2_opt_level": 1},
    "overlap-boxes": {"pipeline_strategy": "unspecialize", "v2_opt_level": 1, "tensor_maps": "host"},
    "agents": {"pipeline_strategy": "warp-specialize"},
    "agents-boxes": {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"},
    "agents-device-boxes": {"pipeline_strategy": "warp-specialize", "tensor_maps": "device"},
    "light": {"pipeline_strategy": "warp-specialize", "rrt_size_threshold": 0},
    "light-boxes": {"pipeline_strategy": "warp-specialize", "rrt_size_threshold": 0, "tensor_maps": "host"},
    "clusters": {"pipeline_strategy": "warp-specialize", "tensor_maps": "host", "num_ctas": 2},
    "auto": {"pipeline_strategy": "auto", "tensor_maps": "host"},
}
"""Options of `tileiras.compile`: what is chosen without any, loads where they stand, loads that run ahead in plain
rings, in boxes of tensor maps that the host makes or the device, the same with operations of several iterations at a
time, loads by an agent, by an agent in boxes of either kind, by an agent without overlapping iterations, in boxes with
two CTAs for each tile block, and what the compiler's rule makes of it with one (`default` is the same without
boxes)."""


def plans(names: str) -> dict[str, Plan]:
    """Those of a list separated by commas, an option's value.  Raises ArgumentTypeError."""
    wanted = [name for name in names.split(",") if name]
    for name in wanted:
        if name not in PLANS:
            raise argparse.ArgumentTypeError(f"unknown plan {name}: accepted are {', '.join(PLANS)}")
    return {name: PLANS[name] for name in wanted}
