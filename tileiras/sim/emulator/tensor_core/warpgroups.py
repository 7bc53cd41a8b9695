"""Operations that the four warps of a warpgroup have to execute alike, and their register limits (PTX ISA,
"wgmma.mma_async", "setmaxnreg").

Warps may run ahead of each other. Each instruction is compared with that of the first warp at the same position in the
order of such instructions; a warp that ends with fewer of them than another is reported.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from ..launch.recording import SetRegisters, each_warp
from ..order.waits import names, state_of, suspend
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Immediate

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup
    from ..ptx.program import Program

WARPS = 4
_REGISTERS = 1 << 16
"""Registers of a multiprocessor (CUDA C++ Programming Guide, "Compute Capabilities")."""
_FEWEST, _MOST, _STEP = 24, 256, 8


class Lockstep:
    """Instructions of one kind that the warpgroups of a batch have run: by block and warpgroup, those from the first
    that not all warps have run on, and the number that each warp has run."""

    def __init__(self, batch: Batch, subject: str) -> None:
        self.batch = batch
        self.subject = subject
        self.warps = -(-batch.launch.threads // 32)
        self.done: dict[tuple[int, int], dict[int, tuple[Hashable, Instruction]]] = {}
        self.counts = np.zeros((batch.count, self.warps), np.int64)
        batch.on_warp_end.append(self.end)

    def run(self, group: WarpGroup, item: Instruction, row: int, operands: Hashable = None, differ: str = "") -> int:
        """A warp (row of the group) runs ``item`` with operands ``operands``, which have to be equal in all four warps;
        ``differ`` is the message if they are not. Returns the number of such instructions that it had run before."""
        cta, warp = int(group.warp_cta[row]), int(group.thread[row * 32]) // 32
        if warp // WARPS * WARPS + WARPS > self.warps:
            group.fault(f"{self.subject} in a warpgroup of fewer than four warps", item, row * 32)
        number = int(self.counts[cta, warp])
        self.counts[cta, warp] += 1
        by_number = self.done.setdefault((cta, warp // WARPS), {})
        if number not in by_number:
            by_number[number] = (operands, item)
            self._check_ended(group, item, row, cta, warp // WARPS, number)
            return number
        before, earlier = by_number[number]
        if operands != before:
            other = f"line {earlier.line} ({earlier.text})" if earlier is not item else "the same line"
            group.fault(f"{differ or f'warps of a warpgroup run different {self.subject}'}: another warp ran {other}",
                        item, row * 32)  # fmt: skip
        of_group = self.counts[cta, warp // WARPS * WARPS :][:WARPS]
        if of_group.min() > number:
            del by_number[number]
        return number

    def _check_ended(
        self, group: WarpGroup, item: Instruction, row: int, cta: int, warpgroup: int, number: int
    ) -> None:
        for warp in range(warpgroup * WARPS, warpgroup * WARPS + WARPS):
            if self.batch.ended_warps[cta, warp] and self.counts[cta, warp] <= number:
                text = f"warp {warp} of this warpgroup has ended without running this {self.subject}"
                group.fault(text, item, row * 32)

    def end(self, group: WarpGroup, cta: int, warp: int) -> None:
        """A warp has ended."""
        number = int(self.counts[cta, warp])
        last = self.done.get((cta, warp // WARPS), {}).get(number)
        if last is not None:
            _, item = last
            group.fault(f"warp {warp} of this warpgroup has ended without running this {self.subject}", item)


# -- registers -------------------------------------------------------------------------------------------------------


def entry_registers(program: Program, threads: int) -> int:
    """Registers per thread at the start of a block.

    `.maxnreg`, if given. Else the assembler's allocation for `.minnctapersm` blocks on a multiprocessor, or for the
    fewest blocks that leave less than the operand of every `setmaxnreg.inc`.
    """
    if "maxnreg" in program.entry.directives:
        return program.entry.directives["maxnreg"][0]
    blocks = program.entry.directives.get("minnctapersm", (1,))[0]
    least = min(program.register_requests, default=_MOST + 1)
    while (count := min(_REGISTERS // (threads * blocks) // _STEP * _STEP, _MOST)) >= least:
        blocks += 1
    return max(count, _FEWEST)


class Registers:
    """Registers per thread of each warp of a batch, and the released registers of their blocks."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        warps = -(-batch.launch.threads // 32)
        self.held = np.full((batch.count, warps), entry_registers(batch.launch.program, warps * 32))
        self.pool = np.zeros(batch.count, np.int64)
        self.lockstep = Lockstep(batch, "setmaxnreg")

    def change(self, group: WarpGroup, item: Instruction, increases: bool, registers: int) -> None:
        for row in np.flatnonzero(group.active_lanes().any(1)).tolist():
            cta, warp = int(group.warp_cta[row]), int(group.thread[row * 32]) // 32
            self.lockstep.run(group, item, row, registers, "warps of a warpgroup set different numbers of registers")
            count = int(self.held[cta, warp])
            if (registers < count) if increases else (registers > count):
                kind = "fewer" if increases else "more"
                group.fault(f"setmaxnreg to {registers} registers, {kind} than the {count} of the warp", item, row * 32)
            if not increases:
                self.pool[cta] += (count - registers) * 32
                self.held[cta, warp] = registers

    def grant(self, group: WarpGroup, lanes: np.ndarray, count: int) -> np.ndarray:
        """Grant registers from the pools of their blocks to waiting warps."""
        granted = np.zeros(group.n, bool)
        for row in np.flatnonzero(lanes.reshape(-1, 32).any(1)).tolist():
            cta, warp = int(group.warp_cta[row]), int(group.thread[row * 32]) // 32
            missing = (count - int(self.held[cta, warp])) * 32
            if missing <= self.pool[cta]:
                self.pool[cta] -= missing
                self.held[cta, warp] = count
                granted[row * 32 : row * 32 + 32] = True
        return granted

    def missing(self, group: WarpGroup, thread: int, registers: int) -> list[str]:
        cta, warp = int(group.cta[thread]), int(group.thread[thread]) // 32
        counts = self.held[cta]
        missing = registers - int(counts[warp])
        lines = [
            f"{missing} more registers per thread, {missing * 32} in all; "
            f"the block's pool has {int(self.pool[cta])}"
        ]
        for count in sorted(set(counts.tolist()), reverse=True):
            warps = np.flatnonzero(counts == count).tolist()
            states = sorted({state_of(self.batch, cta, other) for other in warps})
            lines.append(f"{names(warps)} of the block hold {count} registers per thread: {'; '.join(states)}")
        return lines


def registers_of(batch: Batch) -> Registers:
    if "registers" not in batch.units:
        batch.units["registers"] = Registers(batch)
    return batch.units["registers"]


@instruction("setmaxnreg")
def decode_setmaxnreg(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    action = modifiers.take("inc", "dec")
    if action is None or not modifiers.take("sync") or not modifiers.take("aligned") or not modifiers.take("u32"):
        raise decoder.unsupported()
    (operand,) = decoder.operands(1)
    count = operand.value if isinstance(operand, Immediate) else 0
    if not _FEWEST <= count <= _MOST or count % _STEP:
        raise decoder.error(f"setmaxnreg takes a multiple of {_STEP} from {_FEWEST} to {_MOST}")
    increases = action == "inc"
    if increases:
        decoder.program.register_requests.append(count)
    decoder.begin_collective(None)

    def terminate(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        registers = registers_of(group.batch)
        if group.launch.recorder is not None:
            each_warp(group, item, SetRegisters(count, increases))
        registers.change(group, item, increases, count)
        if not increases:
            group.goto(following.index)
            return
        suspend(
            group,
            following.index,
            item,
            lambda group, lanes: registers.grant(group, lanes, count),
            lambda group, thread: registers.missing(group, thread, count),
        )

    following = decoder.end_block(terminate)
