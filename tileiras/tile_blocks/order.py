"""Tile blocks with more work start first.

A GPU starts the tile blocks of a grid by their numbers, x first.  Where loops run longer the larger a number is, as in
causal attention, the last blocks to start are the longest ones, and most SMs have nothing to do while they run.

Along y or z the nth block does the work of the nth from the end.  Along x, whose blocks start side by side, that would
only turn each row of the grid round: there rows form groups of 512 blocks or more, and a group's first blocks do
the work of the longest blocks of all its rows.  With rows of 64 blocks:

    blocks that start      0 .. 63 of row 0                 0 .. 63 of row 1      ...
    do the work of         63 of rows 0 .. 7, 62 of ...     55 of rows 0 .. 7     ...

Where a launch makes clusters of tile blocks along x, to share copies, a cluster counts as one block.

Tile IR leaves the order of tile blocks open, but one that waits for another (a lock, a counter of tiles) may count on
it: kernels with atomic updates, or accesses that are not weak, keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.analysis.ranges import MOST_TILE_BLOCKS, RangeAnalysis
from tileiras.analysis.trends import Trend, TrendAnalysis, opposite, together
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith.build import binary, integer
from tileiras.dialects.nv_tileas import BLOCK_GROUP, CLUSTER_BLOCKS, number_of
from tileiras.dialects.scf import ForOp
from tileiras.ir import Builder, IntegerAttr, Operation, Value, i32
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

GROUP = 512
"""The fewest tile blocks of a group, for each CTA that a kernel requests on an SM by a hint that its plan needs.  Of
blocks whose work grows along a line the longest takes twice the mean: from twice as many blocks as a GPU runs at a
time (188 SMs of RTX PRO 6000) the others of a group take as long as its longest, and little work remains after it.
And they are few enough for L2 to hold the data that the rows of a group read, each for itself."""

AXES = ("x", "y", "z")

_UPDATES = (aa.AtomicRMWOp, aa.AtomicCASOp, aa.TiledAtomicRMWOp)
_WEAK = aa.MemSemanticAttr("weak")


class OrderTileBlocks(FunctionPass):
    name = "tileas-order-tile-blocks"
    optional = True
    schedules = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "numbers of tile blocks by which those with more work start first"
    keeps = "the results of the tile blocks of a grid together; the order of those that may wait for each other"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(isinstance(op, ForOp) and _depends_on_block(op.upper_bound) for op in func.walk()):
            start_longest_first(func, context.engine)


def _depends_on_block(value: Value) -> bool:
    """Whether a number is computed from the number of the tile block."""
    seen, waiting = {value}, [value]
    while waiting:
        op = waiting.pop().defining_op
        if op is None:
            continue
        if op.name == "nv_tileaa.get_program_id":
            return True
        fresh = [each for each in op.operands if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return False


def start_longest_first(func: aa.FuncOp, engine: DiagnosticEngine) -> None:
    """Give tile blocks of a function of nv_tileaa other numbers, in place, along an axis of the grid along which its
    loops run longer; a remark says which."""
    ids = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp)]
    if any(op.result.type is not i32 for op in ids) or any(map(may_hand_on, func.walk())):
        return
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp)]
    ranges = RangeAnalysis()
    for axis in (axis for axis in AXES if any(op.axis.value == axis for op in ids)):
        trends = set(_trip_counts(loops, TrendAnalysis(axis, ranges)))
        if 1 in trends and -1 not in trends:
            engine.emit(Remark(Reason("kernel.longest-first", axis=axis), func.location))
            numbers = _Numbers(func)
            group = GROUP * (func.kernel_spec.occupancy or 1)
            fresh = numbers.by_groups(group) if axis == "x" else numbers.from_end(axis)
            if axis == "x":
                func.attributes[BLOCK_GROUP] = IntegerAttr(group, i32)
            for op in ids:
                op.result.replace_all_uses_with(fresh[op.axis.value])
                op.erase()
            return


def may_hand_on(op: Operation) -> bool:
    """Whether tile blocks may wait for each other by an operation."""
    return isinstance(op, _UPDATES) or getattr(op, "mem_semantic", _WEAK) is not _WEAK


def _trip_counts(loops: list[scf.ForOp], trends: TrendAnalysis) -> Iterator[Trend]:
    for loop in loops:
        if trends.trend(loop.step) == 0 and trends.is_positive(loop.step):
            yield together(trends.trend(loop.upper_bound), opposite(trends.trend(loop.lower_bound)))


class _Cluster(NamedTuple):
    """Tile blocks along x: the number of the first one, how many, and which of them this is."""

    first: Value
    blocks: Value
    rank: Value


class _Numbers:
    """Numbers of the tile block that a function is of, computed at its start."""

    def __init__(self, func: aa.FuncOp) -> None:
        self._builder = Builder.at_start(func.body.blocks[0])
        self._builder.location = func.location
        self._one = integer(self._builder, 1)
        self._most = number_of(func, CLUSTER_BLOCKS) or 1
        """Tile blocks that a launch puts in a cluster at most."""

    def _id(self, axis: str) -> Value:
        return self._builder.insert(aa.GetProgramIdOp(axis=aa.AxisAttr(axis), result=i32)).results[0]

    def _size(self, axis: str) -> Value:
        return self._builder.insert(aa.GetNumProgramsOp(axis=aa.AxisAttr(axis), result=i32)).results[0]

    def _of(self, operation: type[Operation], lhs: Value, rhs: Value) -> Value:
        return binary(self._builder, operation, lhs, rhs)

    def _mirror(self, number: Value, size: Value) -> Value:
        return self._number(self._of(arith.SubIOp, self._of(arith.SubIOp, size, self._one), number))

    def _number(self, value: Value) -> Value:
        """Annotate a number of the tile block with the range that analyses assume for a program id."""
        predicate = aa.BoundedAttr(0, MOST_TILE_BLOCKS - 1)
        return self._builder.insert(aa.AssumeOp(value, predicate=predicate, result=i32)).results[0]

    def from_end(self, axis: str) -> dict[str, Value]:
        """The program ids, counted from the end along an axis."""
        result = {each: self._id(each) for each in AXES}
        return {**result, axis: self._mirror(result[axis], self._size(axis))}

    def by_groups(self, group: int) -> dict[str, Value]:
        """The program ids that count the blocks of a group of rows from the end along x, all rows at a time.

        No product leaves 32 bits without sign: y and z have 65,535 blocks at most on any GPU (CUDA C++ Programming
        Guide, "Compute Capabilities"), and the rows of a group have fewer blocks than x and `group` together.
        """
        of, (columns, height, depth) = self._of, map(self._size, AXES)
        rows = of(arith.MulIOp, height, depth)
        row = of(arith.AddIOp, self._id("y"), of(arith.MulIOp, self._id("z"), height))
        whole = of(arith.CeilDivUIOp, integer(self._builder, group), columns)
        first = of(arith.MulIOp, of(arith.DivUIOp, row, whole), whole)
        members = of(arith.MinUIOp, whole, of(arith.SubIOp, rows, first))
        x, cluster = self._id("x"), self._cluster()
        if cluster is not None:
            x, columns = of(arith.DivUIOp, cluster.first, cluster.blocks), of(arith.DivUIOp, columns, cluster.blocks)
        place = of(arith.AddIOp, of(arith.MulIOp, of(arith.SubIOp, row, first), columns), x)
        column = self._mirror(of(arith.DivUIOp, place, members), columns)
        if cluster is not None:
            column = of(arith.AddIOp, of(arith.MulIOp, column, cluster.blocks), cluster.rank)
            column = self._number(column)
        row = of(arith.AddIOp, first, of(arith.RemUIOp, place, members))
        y, z = of(arith.RemUIOp, row, height), of(arith.DivUIOp, row, height)
        return {"x": column, "y": self._number(y), "z": self._number(z)}

    def _cluster(self) -> _Cluster | None:
        """The cluster of tile blocks along x that the launch may have made, of one tile block where it has not; its
        tile blocks stay neighbours.  None where it makes none."""
        if self._most == 1:
            return None
        first, last = (self._neighbor(rank) for rank in (0, self._most - 1))
        blocks = self._of(arith.AddIOp, self._of(arith.SubIOp, last, first), self._one)
        return _Cluster(first, blocks, self._of(arith.SubIOp, self._id("x"), first))

    def _neighbor(self, rank: int) -> Value:
        result = aa.GetProgramIdOp(axis=aa.AxisAttr("x"), neighbor=IntegerAttr(rank, i32), result=i32)
        return self._builder.insert(result).results[0]
