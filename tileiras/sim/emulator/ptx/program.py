"""A decoded entry: basic blocks of Python closures over register slots.

Every value that a thread can name has a *slot* in a flat register file: virtual registers, temporaries, literals,
special registers, addresses of variables, kernel parameters. A slot holds a NumPy array of the register's storage type,
with one element per thread of a group of warps, or a single element if the value is uniform; arrays are immutable, so
that a move copies a reference. A *step* is a closure that reads and writes slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .module import Function, Instruction
from .types import PtxType

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

Step = Callable[["WarpGroup"], None]
"""Function of a group of warps."""

#: First shared-memory offset given to variables: offset 0 stays free, so that a null shared pointer faults.
SHARED_START = 1024


class Block:
    """A basic block. ``collective``: its first instruction needs all the warp's lanes (of a member mask) together;
    ``successors``: targets of its terminator, only the next block if None."""

    __slots__ = ("collective", "index", "instructions", "steps", "successors", "terminator")

    def __init__(self, index: int) -> None:
        self.index = index
        self.steps: list[Step] = []
        self.instructions: list[Instruction] = []
        self.terminator: Step | None = None
        self.successors: tuple[Block, ...] | None = None
        self.collective: Collective | None = None


class Collective:
    """``members``: slot of the member mask, or None if every live lane of the warp takes part."""

    __slots__ = ("members",)

    def __init__(self, members: int | None) -> None:
        self.members = members


class Program:
    """The decoded entry: blocks, the initial register file and the memory its variables need."""

    def __init__(self, entry: Function) -> None:
        self.entry = entry
        self.blocks: list[Block] = []
        self.registers: list[np.ndarray] = []
        self.specials: dict[str, int] = {}
        self.parameters: list[tuple[int, int, np.dtype]] = []  # (slot, byte offset, storage type)
        self.parameter_addresses: list[tuple[int, int]] = []  # (slot, byte offset)
        self.addresses: list[tuple[int, str, int]] = []  # (slot, module variable, byte offset)
        self.parameter_offsets: dict[str, int] = {}
        self.parameter_bytes = 0
        self.shared_bytes = SHARED_START  # static part, from offset 0 on
        self.dynamic_align = 0  # of .extern .shared; 0 if absent
        self.dynamic_slots: list[tuple[int, int]] = []
        self.shared_slots: list[int] = []  # addresses of shared variables, which include the rank of their block
        self.cta_group = 0  # of its `tcgen05` instructions, 0 without
        self.local_bytes = 0
        self.shared_variables: dict[str, int] = {}
        self.register_requests: list[int] = []  # operands of `setmaxnreg.inc`
        self.cancels = False  # whether it requests the work of clusters that have not started
        self.moves_in_flight = False  # whether registers may be moved while asynchronous dots will write them
        self.bulk_copies = False  # whether it has any: in some places only these use the asynchronous proxy
        self.granule = 16  # bytes of the smallest access of shared memory in the entry, at most 16
        self.global_granule = 16  # of global memory


def writer(slot: int, compute, storage: np.dtype | None) -> Step:
    """The step that writes ``compute(R)`` to ``slot`` under the group's mask."""
    where = np.where
    if storage is None:

        def step(group: WarpGroup) -> None:
            R = group.R
            mask = group.mask
            R[slot] = compute(R) if mask is None else where(mask, compute(R), R[slot])
    else:

        def step(group: WarpGroup) -> None:
            R = group.R
            mask = group.mask
            value = compute(R).view(storage)
            R[slot] = value if mask is None else where(mask, value, R[slot])

    return step


def extend(compute, have: PtxType, want: PtxType):
    """``compute`` with its result of type ``have`` extended to the width of ``want``."""
    source = have.value if have.signed else have.storage
    middle = np.dtype(f"i{want.bytes}") if have.signed else want.storage

    def widened(R: Sequence[np.ndarray]):
        return compute(R).view(source).astype(middle).view(want.storage)

    return widened


def guard(slot: int, polarity: bool, steps: list[Step]) -> Step:
    """The steps, for the threads whose predicate is ``polarity``."""
    single = steps[0] if len(steps) == 1 else None

    def guarded(group: WarpGroup) -> None:
        predicate = group.R[slot]
        if not polarity:
            predicate = ~predicate
        outer = group.mask
        if predicate.size == 1:
            if not predicate[0]:
                return
            predicate = outer
        else:
            if outer is not None:
                predicate = predicate & outer
            if not predicate.any():
                return
        group.mask = predicate
        if single is not None:
            single(group)
        else:
            for step in steps:
                step(group)
        group.mask = outer

    return guarded


def branch(slot: int, polarity: bool, target: Block, following: Block):
    """A terminator: to ``target`` where the predicate is ``polarity``, else to ``following``."""

    def terminate(group: WarpGroup) -> None:
        predicate = group.R[slot]
        group.branch(predicate if polarity else ~predicate, target.index, following.index)

    return terminate
