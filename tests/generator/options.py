"""Random targets, hints and compiler options: everything that changes the plan and not the result."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_103", "sm_120")
MAPS = (("none", 3), ("host", 5), ("device", 2))
STRATEGIES = (("auto", 5), ("none", 1), ("unspecialize", 2), ("warp-specialize", 4))


class Build(NamedTuple):
    """`hints` are written into the kernel, `options` are those of `tileiras.compile`."""

    gpu_name: str
    hints: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return " ".join([self.gpu_name, f"({self.hints})", *(f"{key}={value}" for key, value in self.options.items())])


def sm_number(gpu_name: str) -> int:
    return int(gpu_name.removeprefix("sm_"))


def _weighted(pick: random.Random, rows: tuple[tuple[str, int], ...]) -> str:
    return pick.choices([name for name, _ in rows], [weight for _, weight in rows])[0]


def build(pick: random.Random, targets: tuple[str, ...] = TARGETS) -> Build:
    """Draw a target and the options of one compilation."""
    hints, options = [], {}
    gpu_name = pick.choice(targets)
    if pick.random() < 0.3:
        hints.append(f"num_ctas={pick.choice((1, 2, 2, 2, 4, 8))}")
    if pick.random() < 0.25:
        hints.append(f"occupancy={pick.choice((1, 2, 2, 3, 4, 8))}")
    if pick.random() < 0.2:
        hints.append(f"num_worker_warps={pick.choice((4, 8))}")
    if pick.random() < 0.7:
        options["tensor_maps"] = _weighted(pick, MAPS)
    if pick.random() < 0.6:
        options["pipeline_strategy"] = _weighted(pick, STRATEGIES)
    if pick.random() < 0.15:
        options["num_warps"] = pick.choice((1, 2, 4, 4, 8, 16))
    if pick.random() < 0.2:
        options["unspecialized_pipeline_num_stages"] = pick.randint(1, 6)
    if pick.random() < 0.1:
        options["v2_opt_level"] = pick.choice((0, 1))
    if pick.random() < 0.1:
        options["rrt_size_threshold"] = 0
    if pick.random() < 0.15:
        options["opt_level"] = pick.choice((0, 1, 2))
    if pick.random() < 0.08:
        options["enable_random_delay"] = True
    return Build(gpu_name, ", ".join(hints), options)
