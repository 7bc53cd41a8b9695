"""Estimates of our code and of the reference compiler's for one launch, and whether both compute the same."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import tileiras
from bench import real_sizes
from bench.ranking import Taken
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError
from tileiras.sim.errors import SimulationError
from tileiras.targets.rates import Gpu

if TYPE_CHECKING:
    from tileiras.sim.estimate.result import Estimate

sys.path.insert(0, str(real_sizes.CONFORMANCE))
from vendor_ptx import Refused, vendor_compile  # noqa: E402

GPUS = {"sm_80": "A100", "sm_90": "H200", "sm_100": "B200", "sm_120": "RTX PRO 6000"}
"""The GPU that stands for a target."""


class Timed(NamedTuple):
    """The time of one compiler's code for a launch: an estimate, or the reason for its absence."""

    estimate: Estimate | None
    refusal: str
    seconds: float
    """That the estimate itself took."""

    @property
    def microseconds(self) -> float | None:
        return None if self.estimate is None else self.estimate.microseconds


class Job(NamedTuple):
    """A launch of an entry of bytecode."""

    name: str
    bytecode: bytes
    entry: str
    grid: Sequence[int]
    parameters: list[Any]
    flops: float = 0


def exported(text: str, target: str, suffix: str = ".py") -> bytes:
    """The bytecode of a source in memory.  Raises CompileError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"kernel{suffix}")
        path.write_text(text, encoding="utf-8")
        return tileiras.compile(path, gpu_name=target, emit="bytecode").data


def missing_tools() -> list[str]:
    """The tools required to read machine code."""
    return [name for name in ("ptxas", "nvdisasm") if toolkit.find_program(name) is None]


def ours(job: Job, gpu: Gpu, **options: Any) -> tileiras.Artifact:
    """Our PTX for the GPU, which the estimate has assembled.  Raises CompileError."""
    return tileiras.compile(job.bytecode, gpu_name=gpu.target.name, emit="ptx", entry=job.entry, **options)


def theirs(job: Job, gpu: Gpu) -> bytes:
    """The reference compiler's cubin.  Raises Refused."""
    return vendor_compile(job.bytecode, gpu.target.name).cubin


def timed(image: Any, job: Job, gpu: Gpu, dirty_l2: bool = False, metadata: Any = None) -> Timed:
    """The estimate of an image; ``dirty_l2`` and, of PTX, ``metadata`` as `sim.estimate` has them."""
    from tileiras.sim import estimate

    begin = time.perf_counter()
    try:
        result = estimate(
            image, job.entry, job.grid, job.parameters, gpu=gpu.name, metadata=metadata, dirty_l2=dirty_l2
        )
    except (CompileError, SimulationError) as error:
        return Timed(None, _first_line(error), time.perf_counter() - begin)
    return Timed(result, "", time.perf_counter() - begin)


def taken(found: Timed) -> Taken:
    """The fields of an estimate that a table and a file of rows keep."""
    estimate = found.estimate
    if estimate is None:
        return Taken(None, refusal=found.refusal, seconds=round(found.seconds, 2))
    if estimate.doubt:
        return Taken(None, refusal=f"in doubt: {estimate.doubt}", seconds=round(found.seconds, 2))
    held = estimate.occupancy
    return Taken(
        estimate.microseconds, estimate.bound, "", _largest(estimate.utilization), _largest(estimate.by_reason()),
        f"{held.ctas} CTAs, {held.warps} warps an SM ({held.limit}), {held.waves:.2f} waves", round(found.seconds, 2),
        estimate.low, estimate.high, list(estimate.needs),
    )  # fmt: skip


def _largest(shares: dict[str, float], count: int = 4) -> dict[str, float]:
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return {name: round(share, 3) for name, share in ordered[:count] if share >= 0.01}


def _first_line(error: Exception) -> str:
    return f"{error}".strip().split("\n")[0]


def compiled_and_timed(compile_: Any, job: Job, gpu: Gpu, dirty_l2: bool = False) -> Timed:
    """An estimate by `ours` or `theirs`."""
    try:
        image = compile_(job, gpu)
    except (CompileError, Refused) as error:
        return Timed(None, _first_line(error), 0.0)
    return timed(image, job, gpu, dirty_l2)


# ---- computed results --------------------------------------------------------------------------------------------


def difference(first: Any, second: Any, job: Job, gpu: Gpu) -> str:
    """Where the first cluster of a launch leaves other numbers by one image than by another; empty where it does not.

    The clusters of the two may be of different sizes: only elements that both wrote are compared.  Results are equal up
    to the rounding of sums in another order.
    """
    from tileiras.sim import emulate
    from tileiras.sim.emulator.launch.emulation import launch_shapes
    from tileiras.sim.emulator.rules import RULES
    from tileiras.sim.estimate import images
    from tileiras.sim.estimate.sampling import block_order

    left: list[dict[int, np.ndarray]] = []
    roots = {n: value for n, value in enumerate(job.parameters) if isinstance(value, np.ndarray)}
    for image in (first, second):
        loaded = images.load(image, job.entry, gpu, grid=job.grid, arguments=job.parameters)
        result = [value.copy(order="K") if n in roots else value for n, value in enumerate(job.parameters)]
        try:
            members = int(np.prod(launch_shapes(loaded.ptx, loaded.entry, job.grid, loaded.metadata, result)[2]))
            group = (loaded.metadata or {}).get("block_group", 0)
            begin = int(block_order(job.grid, group).argmin()) * members  # its cluster does the first work
            emulate(
                loaded.ptx, loaded.entry, job.grid, result, loaded.metadata, hidden=loaded.hidden, waive=tuple(RULES),
                blocks=range(begin, begin + members), check_races=False, seed=None,
            )  # fmt: skip
        except SimulationError as error:
            return _first_line(error)
        left.append({n: result[n] for n in roots})
    compared = 0
    for n, before in roots.items():
        mine, other = (each[n] for each in left)
        both = (mine != before) & (other != before)
        compared += int(both.sum())
        one, two = (np.asarray(each[both], np.float64) for each in (mine, other))
        # Elements that are NaN or infinite in both compare equal.
        scale = np.abs(two[np.isfinite(two)]).max(initial=0)
        if not np.allclose(one, two, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
            apart = np.abs(one - two)
            worst = apart[np.isfinite(apart)].max(initial=0)
            return f"parameter {n} differs by {worst:.3g}, at numbers up to {scale:.3g}"
    return "" if compared else "nothing that both have written"


TOLERANCE = 2e-2
"""Of results in f16 or bf16, whose sums were rounded in another order."""
