"""The program of the agent that loads: the loops and branches around loads that run ahead, and these as copies."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.analysis.ranges import RangeAnalysis
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Builder, Operation, Value, i32
from tileiras.schedule.agents.channels import Pipe, Pipes, Ring, copy_box
from tileiras.schedule.agents.load_plan import LoadPlan
from tileiras.schedule.agents.split import AgentProgram
from tileiras.schedule.materialize.box_ring import box_coordinates
from tileiras.schedule.materialize.cluster_tiles import ClusterTiles
from tileiras.schedule.staging import StagedLoad, start_copy
from tileiras.schedule.tensor_boxes import is_multicast
from tileiras.targets.pipe_protocol import PIPE_PROTOCOLS


class Producer(AgentProgram[Ring]):
    """Writes the program of the agent that loads beside that of the kernel."""

    def __init__(self, plan: LoadPlan, pipes: Pipes, most: Mapping[Operation, Value], tiles: ClusterTiles) -> None:
        super().__init__(plan.slice)
        self._tiles = tiles
        self._most = most
        self._atom = plan.atom
        self._pipes = pipes
        self._loads: dict[Operation, tuple[Pipe, int, StagedLoad]] = {}
        for pipe in pipes.all:
            for number, staged in enumerate(pipe.plan.loads):
                self._loads[staged.load] = pipe, number, staged
        self._acquired: dict[Pipe, Value] = {}
        self._stages: dict[Pipe, Value] = {}
        self._ranges = RangeAnalysis()

    def program(self, work: Block) -> Block:
        """The program of the agent that runs beside `work`."""
        return self._written(work, {ring: ring.producer for ring in self._pipes.rings})

    def _finish(self, builder: Builder, at: dict[Ring, Value]) -> None:
        plans = {pipe.ring: pipe.plan for pipe in self._pipes.all}
        for ring in self._pipes.rings:
            if PIPE_PROTOCOLS[plans[ring].producer, plans[ring].consumer].is_of_pair:
                builder.insert(tileas.ProducerTailOp(ring.producer, at[ring]))

    def _trips(self, loop: scf.ForOp) -> Value | None:
        """The agent copies as often as the tile block of the cluster with the largest trip count."""
        return self._most.get(loop)

    def _before(self, loop: scf.ForOp, builder: Builder) -> None:
        for pipe in self._pipes.of(loop):
            self._tiles.compare(pipe, builder, self._values)

    def _is_own(self, op: Operation) -> bool:
        return op in self._loads

    def _inside(self, op: Operation) -> list[Ring]:
        return self._pipes.inside(op)

    def _do(self, load: Operation, builder: Builder, at: dict[Ring, Value]) -> None:
        pipe, number, staged = self._loads[load]
        ring = pipe.ring
        if number == 0:
            acquire = tileas.ProducerAcquireOp(ring.producer, at[ring], self._tiles.pipes.get(pipe))
            self._acquired[pipe] = builder.insert(acquire).results[0]
            if not pipe.descriptors:
                self._stages[pipe] = builder.insert(tileas.GetStageOp(at[ring], result=i32)).results[0]
        if pipe.descriptors:
            coords = box_coordinates(builder, staged.load, self._of, self._ranges)
            acquired, same = self._acquired[pipe], self._tiles.loads.get(load)
            copy_box(builder, pipe.descriptors[number], coords, acquired, number, is_multicast(staged), same)
        else:
            start_copy(builder, staged.load, ring.buffers[number], self._stages[pipe], None, self._atom, self._of)
        if number + 1 == len(ring.buffers):
            builder.insert(tileas.ProducerCommitOp(self._acquired.pop(pipe)))
            at[ring] = builder.insert(tileas.IncIterOp(at[ring])).results[0]
