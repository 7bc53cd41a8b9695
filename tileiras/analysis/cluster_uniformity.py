"""Uniformity analysis over the CTAs of a cluster: a value is common if it does not depend on a CTA's rank or, if each
CTA is a tile block of its own, on the tile block's number along x."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tileiras import analysis
from tileiras.analysis.derivations import is_derived
from tileiras.analysis.incoming import incoming
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import BlockArgument, IntegerAttr, Operation, Pure, TensorType, Value, i32

_OWN = (aa.GetCtaRankOp, aa.AtomicRMWOp, aa.AtomicCASOp, aa.TiledAtomicRMWOp, tileas.AllocaOp)
"""Operations that give each CTA a value of its own."""

LEAST_BYTES = 16 << 10
"""Least size of a tile that tile blocks share.  Each stage costs the loading agent a fence, which waits for L2, and
arrivals in the other CTA, about 460 cycles; it saves half of the tile's load time, at 26 to 30 bytes a cycle and SM of
an H200 if all read at once.  By the model, sharing 8 KiB makes attention of 64 heads over 4,096 positions, 64x64, d 64,
11 % slower, and 16 KiB makes the same with d 128 27 % faster."""


def pays(load: Any) -> bool:
    """Whether the tile of a load is large enough for a copy shared by several tile blocks to be faster."""
    tile = load.data.type
    return tile.num_elements * tile.element_type.width >= 8 * LEAST_BYTES


class ClusterUniformity:
    """Uniformity of the values of a function whose work `tileas-plan-cta` has divided, or whose tile blocks may be a
    cluster.  No CTA writes data that another CTA loads later, so two loads from the same place give the same value."""

    def __init__(self, func: aa.FuncOp, facts: dict[str, None] | None = None) -> None:
        """`facts` collects the properties that launches of pairs must have for the results to hold; without it, results
        may rely on the properties of launches that the function states."""
        self._may_be_cluster = tileas.CLUSTER_BLOCKS in func.attributes
        """Whether tile blocks query at run time if they are a cluster, and so may compute the requests of others."""
        self._of_blocks = self._may_be_cluster or tileas.PAIRS_OF in func.attributes
        self._known: dict[Value, bool] = {}
        self._numbers: Any = None
        if tileas.PAIRS_OF in func.attributes:
            counters = dict.fromkeys(tileas.facts_of_pairs(func)) if facts is None else facts
            self._numbers = analysis.pair_numbers.PairNumbers(self, counters, facts is not None)

    def is_common(self, value: Value) -> bool:
        """Whether all CTAs compute the same value."""
        result = self._known.get(value)
        if result is None:
            result = self._known[value] = self._reaches_no_rank(value)
        return result

    def is_reached_together(self, op: Operation) -> bool:
        """Whether all CTAs execute an operation equally often."""
        around = op.parent_op
        while around is not None and not isinstance(around, aa.FuncOp):
            if not all(map(self.is_common, _decides(around))) and not self._is_run_by_pairs(around):
                return False
            around = around.parent_op
        return True

    def _is_run_by_pairs(self, op: Operation) -> bool:
        """Whether an operation is a loop over tiles that both tile blocks of a pair run equally often."""
        return self._numbers is not None and isinstance(op, scf.ForOp) and self._numbers.runs_alike(op)

    def _reaches_no_rank(self, value: Value) -> bool:
        pending, seen = [value], {value}
        while pending:
            current = pending.pop()
            if self._numbers is not None and self._numbers.is_same(current):
                continue
            if self._known.get(current) is False or self._is_own(current.defining_op):
                return False
            for source in _sources(current):
                if source not in seen and not isinstance(source.type, aa.MemTokenType):
                    seen.add(source)
                    pending.append(source)
        return True

    def is_shared(self, load: Any) -> bool:
        """Whether the CTAs of a cluster share the copies of a load: it is uniform; or it may be uniform at run time,
        and no load of its block always is."""
        if self.is_same(load):
            return True
        beside = (op for op in load.parent.operations if isinstance(op, aa.TiledLoadOp))
        return pays(load) and self.may_be_same(load) and not any(map(self.is_same, beside))

    def is_same(self, load: Any) -> bool:
        """Whether a load gives all CTAs of a cluster the same tiles."""
        return self.is_reached_alike(load) and all(map(self.is_common, (load.view, *load.coords)))

    def may_be_same(self, load: Any) -> bool:
        """Whether a load may give the tile blocks of a cluster the same tile, and each of them can decide at run time
        whether it does, with the same result, by computing the coordinates of all."""
        if not self._may_be_cluster or not self.is_common(load.view):
            return False
        tiles = self.loop_over_tiles(load)
        if tiles is None and not self.is_reached_together(load):
            return False
        counter = None if tiles is None else tiles.induction_variable
        own = [each for each in load.coords if not self.is_common(each)]
        return bool(own) and all(is_told(each, counter) and not self._is_another(each, counter) for each in own)

    def loop_over_tiles(self, op: Operation) -> scf.ForOp | None:
        """The loop around an operation in which each tile block takes every nth tile, starting at its own number along
        x, if all execute the operation equally often in a round of it."""
        loop: scf.ForOp | None = None
        around = op.parent_op
        while around is not None and not isinstance(around, aa.FuncOp):
            if not all(map(self.is_common, _decides(around))):
                if loop is not None or not self.takes_every_nth(around):
                    return None
                loop = around  # type: ignore[assignment]
            around = around.parent_op
        return loop

    def takes_every_nth(self, op: Operation) -> bool:
        """Whether an operation is a loop from the tile block's number along x to a common bound, with the number of
        tile blocks along x as its step: each number is a round of exactly one tile block."""
        if not isinstance(op, scf.ForOp) or op.unsignedCmp is not None or op.induction_variable.type is not i32:
            return False
        begin, step = _unassumed(op.lower_bound), _unassumed(op.step)
        if not isinstance(begin, aa.GetProgramIdOp) or begin.axis.value != "x" or begin.neighbor is not None:
            return False
        counts = isinstance(step, aa.GetNumProgramsOp) and step.axis.value == "x"
        return counts and self.is_common(op.upper_bound)

    def is_told_of(self, own: Value, *counterparts: Value) -> bool:
        """Whether `counterparts` are, by rank, the values that the tile blocks of a cluster compute for `own`."""
        return all(is_derived([(own, each)], partial(self._told_from, rank)) for rank, each in enumerate(counterparts))

    def _told_from(self, rank: int, both: tuple[Value, Value]) -> list[tuple[Value, Value]] | None:
        """The pairs of values by which the second of a pair is the first as the tile block of a rank computes it."""
        own, counterpart = both
        if own is counterpart:
            return [] if self.is_common(own) else None
        op, other = own.defining_op, counterpart.defining_op
        if other is not None and other.name == names.NEIGHBOR_COUNTER:
            is_own = other.counter is own and other.neighbor.value == rank  # type: ignore[attr-defined]
            return [] if is_own else None
        if op is None or other is None or op.regions:
            return None
        if op.name != other.name or op.results.index(own) != other.results.index(counterpart):
            return None
        if len(op.operands) != len(other.operands):
            return None
        attributes = dict(op.attributes)
        if isinstance(op, aa.GetProgramIdOp) and op.axis.value == "x":
            attributes["neighbor"] = IntegerAttr(rank, i32)
        return list(zip(op.operands, other.operands)) if attributes == dict(other.attributes) else None

    def _is_another(self, value: Value, counter: Value | None) -> bool:
        """Whether a number differs between any two tile blocks: it is the number along x, or the counter of a loop over
        tiles, plus or minus a common value, or times a nonzero constant."""
        op: Any = value.defining_op
        if value is counter or isinstance(op, aa.GetProgramIdOp):
            return True
        if isinstance(op, (aa.AssumeOp, arith.ExtSIOp, arith.ExtUIOp)):
            return self._is_another(op.operands[0], counter)
        if not isinstance(op, (arith.AddIOp, arith.SubIOp, arith.MulIOp)):
            return False
        own = [each for each in op.operands if not self.is_common(each)]
        others = [each for each in op.operands if each not in own]
        if isinstance(op, arith.MulIOp) and not all(map(arith.constant_integer, others)):
            return False
        return len(own) == 1 and self._is_another(own[0], counter)

    def _is_own(self, op: Any) -> bool:
        if isinstance(op, aa.GetProgramIdOp):
            return self._of_blocks and op.axis.value == "x" and op.neighbor is None
        counter = op.counter if op is not None and op.name in (names.NEIGHBOR_COUNTER, names.IS_SAME_TILE) else None
        if counter is not None:
            # All tile blocks compute the same result for a loop over tiles.
            return not self.takes_every_nth(counter.block.parent_op)  # type: ignore[attr-defined]
        return isinstance(op, _OWN)

    def is_reached_alike(self, op: Operation) -> bool:
        """Whether all CTAs execute an operation equally often; or it is in a loop with a common lower bound, and each
        tile block of a cluster can compute the trip counts of the others."""
        if self.is_reached_together(op):
            return True
        loop = op.parent_op
        return isinstance(loop, scf.ForOp) and self.trips_are_known(loop) and self.is_common(loop.lower_bound)

    def is_reached_where(self, op: Operation, together: Value) -> bool:
        """Whether all CTAs execute an operation in the rounds in which `together`, a common condition, states that tile
        blocks have the same tile."""
        if not self.is_common(together) or self.is_reached_together(op):
            return self.is_common(together)
        loop = self.loop_over_tiles(op)
        return loop is not None and _holds_in_rounds_of(together, loop.induction_variable)

    def trips_are_known(self, loop: scf.ForOp) -> bool:
        """Whether each tile block of a cluster can compute the trip counts of the others for a loop in the function's
        own block: its step is 1, and both bounds have a slice of numbers."""
        if not self._may_be_cluster or not isinstance(loop.parent_op, aa.FuncOp) or loop.unsignedCmp is not None:
            return False
        step: Any = loop.step.defining_op
        if not isinstance(step, arith.ConstantOp) or step.value.value != 1:
            return False
        return all(slice_of_numbers(bound) is not None for bound in (loop.lower_bound, loop.upper_bound))


def _unassumed(value: Value) -> Operation | None:
    """The operation that defines a number, behind any `assume`."""
    op = value.defining_op
    return _unassumed(op.operand) if isinstance(op, aa.AssumeOp) else op


def _holds_in_rounds_of(condition: Any, counter: Value) -> bool:
    """Whether a condition holds only in rounds of the loop with this counter that all tile blocks of a cluster have."""
    op = condition.defining_op
    if isinstance(op, arith.OrIOp):
        return all(_holds_in_rounds_of(each, counter) for each in op.operands)
    return op is not None and op.name == names.IS_SAME_TILE and op.counter is counter


_DIVISIONS = (
    arith.DivSIOp, arith.DivUIOp, arith.CeilDivSIOp, arith.CeilDivUIOp, arith.FloorDivSIOp, arith.RemSIOp, arith.RemUIOp
)  # fmt: skip


def is_told(value: Value, counter: Value | None) -> bool:
    """Whether a tile block may compute a number for the others unconditionally: a division in a loop or a branch may be
    by zero where that is not run.  `counter`: that of a loop over tiles, taken as given."""
    blocks = (None if counter is None else counter.parent_block,)
    steps = slice_of_numbers(value, counter, loads=True)
    return steps is not None and not any(
        isinstance(op, _DIVISIONS) and op.parent not in blocks and not isinstance(op.parent_op, aa.FuncOp)
        for op in steps
    )


def slice_of_numbers(value: Value, counter: Value | None = None, loads: bool = False) -> list[Operation] | None:
    """The operations that compute a number from arguments, the tile block's place in the grid and `counter`, in
    topological order; None if it depends on anything else.  `loads`: also from numbers that every tile block loads
    (`is_loaded_alike`), as the expert of its rows, through views of arguments, which are not among the operations."""
    operations: dict[Operation, None] = {}

    def visit(current: Value) -> bool:
        op: Any = current.defining_op
        if current is counter:
            return True
        if op is None:
            return isinstance(current.block.parent_op, aa.FuncOp)  # type: ignore[attr-defined]
        if op in operations:
            return True
        if isinstance(current.type, aa.TiledViewType):
            return is_derived([current], _launch_sources)
        if op.regions or any(isinstance(each.type, TensorType) and each.type.num_elements > 1 for each in op.operands):
            return False
        if not op.has_trait(Pure) and not (loads and is_loaded_alike(op)):
            return False
        if not all(map(visit, (each for each in op.operands if not isinstance(each.type, aa.MemTokenType)))):
            return False
        operations[op] = None
        return True

    return list(operations) if visit(value) else None


def _launch_sources(value: Value) -> Sequence[Value] | None:
    """The values from which the arguments of the function lead to a value in its own block; None if they do not."""
    op = value.defining_op
    if op is None:
        return () if isinstance(value.block.parent_op, aa.FuncOp) else None  # type: ignore[attr-defined]
    if not op.has_trait(Pure) or isinstance(op, aa.GetProgramIdOp) or not isinstance(op.parent_op, aa.FuncOp):
        return None
    return op.operands


def is_loaded_alike(op: Any) -> bool:
    """Whether an operation loads one element that any tile block of a cluster may load for another one, with the same
    result: every tile block executes it, and no token orders it with another operation.  A write to the element, by any
    tile block, would then be a race with it."""
    if not isinstance(op, (aa.LoadOp, aa.TiledLoadOp)):
        return False
    if not isinstance(op.parent_op, aa.FuncOp) and op.parent_op.name != names.AGENT_SWITCH:
        return False  # not executed by every tile block
    type = op.data.type
    if isinstance(type, TensorType) and type.num_elements > 1 or op.mem_semantic.value != "weak":
        return False
    fresh = op.token is None or isinstance(op.token.defining_op, aa.CreateMemTokenOp)
    return fresh and not op.result_token.has_uses


def _sources(value: Value) -> list[Value]:
    """The values from which a value is computed, and the conditions that select it."""
    is_argument = isinstance(value, BlockArgument)
    op: Any = value.block.parent_op if is_argument else value.defining_op  # type: ignore[attr-defined]
    if op is not None and op.name in (names.NEIGHBOR_COUNTER, names.IS_SAME_TILE):
        return [each for each in op.operands if each is not op.counter]
    if isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
        if isinstance(op, scf.ForOp) and value is op.induction_variable:
            return [op.lower_bound, op.step]  # in the same round; the number of rounds is a separate question
        return [*_decides(op), *(each.value for each in incoming(value) or ())]
    if is_argument:
        return [] if isinstance(op, aa.FuncOp) else list(op.operands)
    return [operand for inner in op.walk() for operand in inner.operands]


def _decides(op: Operation) -> list[Value]:
    """The values that determine how often, or whether, the regions of an operation are executed."""
    if isinstance(op, scf.ForOp):
        return [op.lower_bound, op.upper_bound, op.step]
    if isinstance(op, scf.IfOp):
        return [op.condition]
    if isinstance(op, scf.WhileOp):
        return [op.before.block.last.condition]  # type: ignore[union-attr]
    return list(op.operands)
