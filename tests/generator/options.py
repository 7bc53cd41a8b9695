"""Random targets, hints and compiler options: they change the plan and not the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.generator.choices import Choices
from tileiras.targets import target

TARGETS = (
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90",
    "sm_100", "sm_103", "sm_107", "sm_110", "sm_120", "sm_121",
)  # fmt: skip
MAPS = {"none": 3, "host": 5, "device": 2}
STRATEGIES = {"auto": 5, "none": 1, "unspecialize": 2, "warp-specialize": 4}


_DEFAULTS = {"num_ctas": 1, "occupancy": 1, "num_worker_warps": 4}


class Weights(NamedTuple):
    """Factors on the generator's own probabilities of the choices of a draw; 1 for choices that are not named."""

    forms: Mapping[str, float] = {}
    targets: Mapping[str, float] = {}
    maps: Mapping[str, float] = {}
    strategies: Mapping[str, float] = {}


class Build(NamedTuple):
    """`hints` are written into the kernel, `options` are those of `tileiras.compile`; `entries` of the module that
    have the kernel."""

    gpu_name: str
    hints: tuple[str, ...]
    options: dict[str, Any]
    entries: int = 1

    def __str__(self) -> str:
        options = [f"{key}={value}" for key, value in self.options.items()]
        entries = [f"entries={self.entries}"] if self.entries > 1 else []
        return " ".join([self.gpu_name, f"({self.decorator})", *options, *entries])

    @property
    def decorator(self) -> str:
        """The hints as arguments of the decorator."""
        return ", ".join(self.hints)

    @property
    def maps(self) -> str:
        """The creator of tensor maps; by default the device where dots have tensor memory."""
        default = "device" if target(self.gpu_name).has("tcgen05") else "none"
        return self.options.get("tensor_maps", default)

    @property
    def strategy(self) -> str:
        return self.options.get("pipeline_strategy", "auto")

    def words(self) -> list[str]:
        """The options as arguments of a command."""
        flags = [f"--gpu-name={self.gpu_name}"]
        for key, value in self.options.items():
            flags.append(f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}"))
        return flags


def sm_number(gpu_name: str) -> int:
    return int(gpu_name.removeprefix("sm_"))


def _weighted(pick: Choices, rows: Mapping[str, float], factors: Mapping[str, float]) -> str:
    return pick.choices(list(rows), [weight * factors.get(name, 1) for name, weight in rows.items()])[0]


def build(
    pick: Choices, targets: tuple[str, ...] = TARGETS, weights: Weights = Weights(), warps: tuple[int, ...] = ()
) -> Build:
    """Draw a target and the options of one compilation; `warps` are the kernel's own numbers of warps."""
    hints, options = [], {}
    gpu_name = _weighted(pick, dict.fromkeys(targets, 1), weights.targets)
    if pick.chance(0.3):
        hints.append(f"num_ctas={pick.choice((1, 2, 2, 2, 4, 8))}")
    if pick.chance(0.25):
        hints.append(f"occupancy={pick.choice((1, 2, 2, 3, 4, 8, 16))}")
    if pick.chance(0.2):
        hints.append(f"num_worker_warps={pick.choice((4, 8))}")
    if pick.chance(0.7):
        options["tensor_maps"] = _weighted(pick, MAPS, weights.maps)
    if pick.chance(0.6):
        options["pipeline_strategy"] = _weighted(pick, STRATEGIES, weights.strategies)
    if warps or pick.chance(0.15):
        options["num_warps"] = pick.choice(warps or (1, 2, 4, 4, 8, 16))
    if pick.chance(0.2):
        options["unspecialized_pipeline_num_stages"] = pick.randint(1, 6)
    if pick.chance(0.1):
        options["v2_opt_level"] = pick.choice((0, 1))
    if pick.chance(0.1):
        options["rrt_size_threshold"] = 0
    if pick.chance(0.15):
        options["opt_level"] = pick.choice((0, 1, 2))
    if pick.chance(0.08):
        options["enable_random_delay"] = True
    if hints and pick.chance(0.3):
        # The hint of another target; this one has none, or the one that it had.
        name, value = hints.pop().split("=")
        own = f"{gpu_name}={value}" if pick.chance(0.5) else f"{pick.choice(targets)}={value}"
        hints.append(f"{name}=ct.ByTarget({own}, default={_DEFAULTS[name]})")
    return Build(gpu_name, tuple(hints), options, 2 if pick.chance(0.05) else 1)
