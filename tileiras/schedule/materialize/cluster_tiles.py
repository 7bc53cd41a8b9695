"""Tiles that the tile blocks of a cluster find, at run time, to be the same for all of them.

    scf.for %i = %x to %tiles step %blocks {         %i0 = neighbor_counter %i of 0
      %column = ... %i                               %i1 = neighbor_counter %i of 1
      scf.for %k = ... {                     ->      %same = is_same_tile [... %i0], [... %i1] round %i
        %b = tiled_load %view[%k, %column]           scf.for %k = ... {
        ...                                            acquire if %same; copy if %same {multicast}; commit

Before the loop whose loads are shared, the agent that loads computes the coordinates that are not the same for all, for
each tile block.  Without a loop over tiles around it they are compared once, before everything.
"""

from __future__ import annotations

from tileiras.analysis.cluster_uniformity import ClusterUniformity
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary
from tileiras.ir import Builder, IntegerAttr, Operation, Value, i32
from tileiras.schedule.agents.channels import Pipe
from tileiras.schedule.staging import StagedLoad
from tileiras.schedule.tensor_boxes import is_multicast

from .cluster_trips import of_neighbor


class ClusterTiles:
    """Under which conditions copies of loads, and the stages that they fill, are shared: `loads` has that of a load,
    `pipes` that of a pipe; those that are missing always are."""

    def __init__(self, func: aa.FuncOp) -> None:
        self._values = ClusterUniformity(func)
        self._blocks = tileas.cluster_size(func)
        self.loads: dict[Operation, Value] = {}
        self.pipes: dict[Pipe, Value] = {}

    def compare(self, pipe: Pipe, builder: Builder, again: dict[Value, Value]) -> None:
        """Has the agent that loads compare, before the loop of a pipe, the coordinates of its tiles in all tile blocks;
        `again`: the agent's copies of the kernel's values."""
        shared = [each for each in pipe.plan.loads if is_multicast(each)]
        result = [same for same in (self._same(each, builder, again) for each in shared) if same is not None]
        if not self.may_differ(pipe):
            return
        some = result[0]
        for same in result[1:]:
            some = binary(builder, arith.OrIOp, some, same)
        self.pipes[pipe] = some

    def may_differ(self, pipe: Pipe) -> bool:
        """Whether the tile blocks compare the tiles of all shared copies into a pipe's stages: they may fill them
        alone."""
        shared = [each for each in pipe.plan.loads if is_multicast(each)]
        return bool(shared) and all(map(self._own, shared))

    def _own(self, staged: StagedLoad) -> list[Value]:
        """The coordinates of a load that are not the same for all."""
        return [each for each in staged.load.coords if not self._values.is_common(each)]

    def _same(self, staged: StagedLoad, builder: Builder, again: dict[Value, Value]) -> Value | None:
        """Whether a load brings the same tile to all; None where it always does."""
        load, own = staged.load, self._own(staged)
        if not own:
            return None
        builder.location = load.location
        tiles = self._values.loop_over_tiles(load)
        counter = None if tiles is None else tiles.induction_variable
        result = [self._of_rank(own, rank, counter, builder, again) for rank in range(self._blocks)]
        at = None if counter is None else again[counter]
        same = builder.insert(tileas.IsSameTileOp(*result, at)).results[0]
        self.loads[load] = same
        return same

    def _of_rank(
        self, own: list[Value], rank: int, counter: Value | None, builder: Builder, again: dict[Value, Value]
    ) -> list[Value]:
        """Coordinates of the tile of a tile block."""
        values: dict[Value, Value] = {}
        if counter is not None:
            number = tileas.NeighborCounterOp(again[counter], neighbor=IntegerAttr(rank, i32), result=i32)
            values[counter] = builder.insert(number).results[0]
        return [of_neighbor(each, rank, builder, values, counter) for each in own]
