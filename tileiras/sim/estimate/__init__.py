"""The clock: estimates the time of a launch on a GPU that need not be present.

``estimate`` records some CTAs of a launch in the emulator (`recorder`, `events`), finds the machine instructions that
they executed (`paths`), replays those against the units of a multiprocessor (`machine`, `engine`, `units`, `barriers`),
and extrapolates to the grid (`steady_state`, `traffic`, `model`). The rates are those of `tileiras.targets.rates`.
"""

from __future__ import annotations

import gc
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileiras.api import Artifact
    from tileiras.sim.estimate.result import Estimate

__all__ = ["estimate"]


def estimate(
    image: str | bytes | os.PathLike[str] | Artifact,
    entry: str,
    grid: int | Sequence[int],
    args: Sequence[Any],
    gpu: str = "H200",
    metadata: Mapping[str, Any] | None = None,
    *,
    dirty_l2: bool = False,
) -> Estimate:
    """Estimate the time of ``entry`` over ``grid`` on a GPU, and its bounds.

    ``image`` is an Artifact, PTX, or a cubin with its PTX in it or beside it, as `images.load` takes them; ``grid`` and
    ``args`` are those of `tileiras.sim.emulate`. The arrays keep their contents: some CTAs are emulated to record them,
    and their stores are undone. ``gpu`` is a name of `tileiras.targets.rates.names()`. With ``dirty_l2`` L2 is
    initially full of dirty lines, as after a fill of memory: data of the launch evicts some of them.

    Raises CompileError for an unknown GPU, an image of another target, or one without its required parts;
    ArgumentMismatch for a grid or arguments that do not fit; EmulationError for errors that the emulator finds in the
    kernel; and SimulationError if no path through the machine code corresponds to the path through the PTX.
    """
    from tileiras.sim.estimate import images
    from tileiras.sim.estimate.model import Model
    from tileiras.targets import rates

    device = rates.gpu(gpu)
    loaded = images.load(image, entry, device, metadata, grid, args)
    with _uncollected():
        model = Model(loaded, _axes(grid), device, args, dirty_l2)
        model.prepare()
        result = model.estimate()
        del model  # with the recording, before the next collection visits it
        return result


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable the cyclic GC: a recording is millions of objects without cycles, each collection visits them all
    again, and together the collections took half of the time of an estimate."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


class _CallablePackage(types.ModuleType):
    """`tileiras.sim.estimate(...)` is the function of that name, and its modules are in the package."""

    def __call__(self, *args: Any, **keywords: Any) -> Estimate:
        return estimate(*args, **keywords)


sys.modules[__name__].__class__ = _CallablePackage


def _axes(grid: int | Sequence[int]) -> Sequence[int]:
    return (grid,) if isinstance(grid, int) else tuple(grid)
