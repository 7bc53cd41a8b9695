"""The clock: how long a launch takes on a GPU that nobody has at hand.

``estimate`` records what some CTAs of a launch do in the emulator (`recorder`, `events`), finds the machine
instructions that they executed (`paths`), replays those against the units of a multiprocessor (`machine`, `engine`,
`units`, `barriers`), and carries that to the grid (`steady_state`, `traffic`, `model`).  The rates are those of
`tileiras.targets.rates`.
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
    """How long ``entry`` takes over ``grid`` on a GPU, and what it waits for.

    ``image`` is an Artifact, PTX, or a cubin with its PTX in it or beside it, as `images.load` takes them; ``grid`` and
    ``args`` are those of `tileiras.sim.emulate`.  The arrays keep their contents: some CTAs are run to see what they
    do, and what they write is undone.  ``gpu`` is a name of `tileiras.targets.rates.names()`.  With ``dirty_l2`` L2 is
    full of what others have written, as behind a fill of memory: what the launch brings there displaces some of it.

    Raises CompileError for an unknown GPU, an image of another target or without what is needed, ArgumentMismatch for a
    grid or arguments that do not fit, EmulationError for what the emulator finds wrong with the kernel, and
    SimulationError where its path through the PTX is not one through the machine code.
    """
    from tileiras.sim.estimate import images
    from tileiras.sim.estimate.model import Model
    from tileiras.targets import rates

    chosen = rates.gpu(gpu)
    model = Model(images.load(image, entry, chosen, metadata, grid, args), _axes(grid), chosen, args, dirty_l2)
    with _uncollected():
        model.prepare()
        return model.estimate()


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for cycles in the block: a recording is millions of objects without any, each search visits them all
    again, and together these took half of an estimate's time."""
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
