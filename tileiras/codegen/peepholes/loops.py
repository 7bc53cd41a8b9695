"""Loops of a function of the llvm dialect, for peepholes: a cheap approximation that decides only whether to rewrite.

The blocks of the lowering stand in order, so that a loop is the range of blocks between the target of a branch back
and the branch.  A block in the range that leaves the loop counts as part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.derivations import settle
from tileiras.ir import Block, Operation, Pure, Region, Value


class Loops:
    """The loops of a region; false without any."""

    def __init__(self, region: Region) -> None:
        self._blocks = list(region.blocks)
        self._number = {block: number for number, block in enumerate(self._blocks)}
        ends: dict[int, int] = {}
        for number, block in enumerate(self._blocks):
            for target in block.last.successors if block.last is not None else ():
                if self._number[target] <= number:
                    ends[self._number[target]] = number
        self._start: dict[Block, int] = {}
        """Block in a loop -> the number of the first block of the innermost one."""
        for start, end in sorted(ends.items()):
            for block in self._blocks[start : end + 1]:
                self._start[block] = start
        self._invariant: dict[int, dict[Value, bool]] = {}
        """Number of the first block of a loop -> value -> whether it is the same in all iterations."""
        self._registers: dict[Block, int] = {}
        """Block of an agent -> registers of its threads; each agent begins with their number."""
        count = None
        for block in self._blocks if self._start else ():
            for op in block.operations:
                if op.name == "nvvm.setmaxregister":
                    count = op.regCount.value  # type: ignore[attr-defined]
            if count is not None:
                self._registers[block] = count

    def __bool__(self) -> bool:
        return bool(self._start)

    def contain(self, op: Operation) -> bool:
        """Whether an operation is in a loop."""
        return op.parent in self._start

    def registers(self, op: Operation, of_kernel: int) -> int:
        """Registers of a thread at an operation, of an agent or those of the kernel."""
        return self._registers.get(op.parent, of_kernel)  # type: ignore[arg-type]

    def is_invariant(self, value: Value, op: Operation) -> bool:
        """Whether a value is the same in all iterations of the innermost loop around `op`."""
        assert op.parent is not None
        start = self._start[op.parent]
        cache = self._invariant.setdefault(start, {})

        def sources(value: Value) -> Sequence[Value]:
            return value.defining_op.operands if value.defining_op is not None and not is_before(value) else ()

        def is_before(value: Value) -> bool:
            assert value.parent_block is not None
            return self._number.get(value.parent_block, 0) < start

        def is_same(value: Value, sources: Sequence[Value]) -> bool:
            maker = value.defining_op
            return is_before(value) or (
                maker is not None and maker.has_trait(Pure) and all(cache[each] for each in sources)
            )

        return settle(value, cache, False, sources, is_same)
