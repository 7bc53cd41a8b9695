"""The dependences of a loop's operations and the units that they compete for: the graph on which a placement is
computed.

    graph = loop_graph(loop, target, warps, staged)
    graph.waits                        the dependences between operations, each with its distance in iterations
    graph.graph                        nodes and edges for `modulo_placement`, in grains of `graph.grain` cycles

An operation depends on the values that it uses, itself or in its regions, on the values that other iterations yield as
loop-carried values, memory tokens included, and, where it has an effect that no token orders, on the previous effect.
The tiles of loads that run ahead are available when an iteration begins, brought by copies of other iterations: such
loads occupy nothing, their latency delays nothing, and their conversions are reads of shared memory.

Operations that gain nothing by separate placement are one node: an operation without cost with its only user, a read of
shared memory with its dot, a chain of elementwise operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tileiras import analysis
from tileiras.analysis.copied_loads import LOADS
from tileiras.analysis.derivations import uses_through
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Block, BlockArgument, NoMemoryEffect, Operation, Value
from tileiras.layout.encoding import is_in_shared
from tileiras.resources.large_dots import OPERAND_MAKERS, may_be_large
from tileiras.resources.live_values import is_elementwise
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target

from .cost_model import OperationCost, nested_cost, operation_cost
from .modulo_placement import Edge, Graph, Node
from .resource_table import Resources, Unit, resources
from .staging import StagedLoad

GRAINS = 160
"""The number of parts into which the least interval is divided: an operation shorter than one part takes no time."""

_PLACED = tuple(unit for unit in Unit if unit is not Unit.DRAM)
"""Units that operations compete for; how much of a load's traffic L2 keeps from DRAM cannot be derived from a loop."""

_MOST_DISTANCE = 4
"""The most iterations over which a loop-carried value is followed from a use to its definition."""

_ON_PIPES = (names.PRODUCER_ACQUIRE, names.PRODUCER_COMMIT, names.CONSUMER_WAIT, names.CONSUMER_RELEASE)
_WITHIN_STAGES = (names.INC_ITER, names.GET_STAGE, names.TMA_LOAD)
"""Operations on pipes that have no effect of their own, or stand between the acquisition of a stage and its commit."""


class Wait(NamedTuple):
    """Operation `target` follows operation `source` of the iteration `distance` before; both are numbers of operations.
    `value`: the value that it depends on; None for an effect."""

    source: int
    target: int
    distance: int
    value: Value | None


class LoopGraph(NamedTuple):
    """`operations`: those of the loop's block except its terminator, in program order; `costs`: the cost of each;
    `node_of`: the node that contains each; `grain`: cycles of a unit of time of `graph`."""

    loop: scf.ForOp
    operations: tuple[Operation, ...]
    waits: tuple[Wait, ...]
    costs: tuple[OperationCost, ...]
    node_of: tuple[int, ...]
    grain: float
    graph: Graph


def loop_graph(
    loop: scf.ForOp, target: Target, warps: int, staged: Sequence[StagedLoad] = ()
) -> LoopGraph | None:
    """The graph of a loop; None where the time of an operation is not known: a nested loop without a known trip count,
    or a value that is carried over more than `_MOST_DISTANCE` iterations."""
    operations = tuple(loop.body.block.operations)[:-1]
    waits = loop_waits(loop)
    table = resources(target)
    costs = _costs(operations, staged, warps, table)
    if waits is None or costs is None:
        return None
    node_of = _fuse(operations, waits, costs)
    busiest: dict[Unit, float] = {}
    for cost in costs:
        for unit, cycles in cost.busy.items():
            busiest[unit] = busiest.get(unit, 0.0) + cycles
    grain = max(1.0, max((busiest.get(unit, 0.0) for unit in _PLACED), default=0.0) / GRAINS)
    return LoopGraph(loop, operations, waits, costs, node_of, grain, _graph(operations, waits, costs, node_of, grain))


# ---- dependences -----------------------------------------------------------------------------------------------------


def loop_waits(loop: scf.ForOp) -> tuple[Wait, ...] | None:
    """The dependences of each operation of a loop's block; None where a value is carried over more than
    `_MOST_DISTANCE` iterations."""
    block = loop.body.block
    operations = list(block.operations)[:-1]
    numbers = {op: number for number, op in enumerate(operations)}
    result: dict[tuple[int, int, int], Wait] = {}
    for number, op in enumerate(operations):
        for value in _operands_inside(op):
            source = _source(value, block)
            if source is None:
                continue
            entry, distance = source
            if distance > _MOST_DISTANCE:
                return None
            key = (numbers[entry], number, distance)
            result.setdefault(key, Wait(*key, value))
    for source, target, distance in (*_order_of_effects(operations), *_releases_behind_reads(operations, block)):
        result.setdefault((source, target, distance), Wait(source, target, distance, None))
    return tuple(result.values())


def _order_of_effects(operations: Sequence[Operation]) -> Iterator[tuple[int, int, int]]:
    """Orderings that no value expresses: between effects that no token orders, between operations that fill and free
    stages of rings, and of reads of a ring after the wait for its stage.

    Reads from a ring, and copies into it at the same time, access different stages.  Operations that fill the stages of
    a pipe keep their order, and follow an earlier release, which may be that of the stage to be filled.
    """
    effects: list[int] = []
    rings: dict[Operation | None, list[int]] = {}
    waits: dict[Operation, int] = {}
    releases: dict[Operation, int] = {}
    for number, op in enumerate(operations):
        if isinstance(op, tileas.CopyOp):
            pipe = tileas.pipe_of_buffer(op.buffer)
            if pipe in waits:
                yield waits[pipe], number, 0
            elif pipe is None and rings.get(None):
                yield rings[None][-1], number, 0
            continue
        events = [(inner.name, ring) for inner in op.walk() for ring in _rings_of(inner)]
        for name, ring in events:
            if ring is not None and name == names.CONSUMER_WAIT:
                waits[ring] = number
            elif ring is not None and name == names.CONSUMER_RELEASE:
                releases[ring] = number
            elif number not in rings.setdefault(ring, [])[-1:]:
                if ring in releases:
                    yield releases[ring], number, 0
                rings[ring].append(number)
        if not events and _has_effect_without_token(op):
            effects.append(number)
    for chain in (effects, *rings.values()):
        for before, behind in zip(chain, chain[1:]):
            yield before, behind, 0
        if chain:
            yield chain[-1], chain[0], 1


def _releases_behind_reads(operations: Sequence[Operation], block: Block) -> Iterator[tuple[int, int, int]]:
    """Releases of stages of pipes, and the operations that read the same stages, possibly iterations before."""
    released: list[tuple[int, Operation, int]] = []
    for number, op in enumerate(operations):
        for inner in op.walk():
            if inner.name == names.CONSUMER_RELEASE:
                source = _source(inner.operands[0], block)
                if source is not None and source[0].name == names.CONSUMER_WAIT:
                    released.append((number, source[0].operands[0].defining_op, source[1]))
    if not released:
        return
    numbers = {op: number for number, op in enumerate(operations)}
    for op in operations:
        if not isinstance(op, tileas.CopyOp):
            continue
        stage = _source(op.stage, block)
        behind = 0 if stage is None else stage[1]
        places = (block.find_ancestor_op(reader) for reader in readers_of(op))
        readers = [numbers[place] for place in places if place in numbers]
        for number, pipe, distance in released:
            if pipe is tileas.pipe_of_buffer(op.buffer) and distance >= behind:
                yield from ((reader, number, distance - behind) for reader in readers)


def readers_of(copy: Operation) -> list[Operation]:
    """The operations that read the stage of a copy.  For a tile in registers: the copy itself and large dots, which
    will read the stage slice by slice.  For a tile in shared memory: the operations that use it in place, also through
    views.
    """
    if not is_in_shared(copy.results[0].type):
        return [copy, *(dot for dot in rolled_dots(copy.results[0]) if dot.parent is copy.parent)]
    return [user for user, _ in uses_through(copy.results[0], lambda user: isinstance(user, tileas.VIEW_LIKE))]


def rolled_dots(tile: Value) -> Iterator[tileas.DotOp]:
    """The dots that `tileas-legalize-fma-dot` and `tileas-roll-mma-dot` turn into loops, which read an operand from the
    buffer instead of from the copied tile."""
    for user, _ in uses_through(tile, lambda user: isinstance(user, OPERAND_MAKERS)):
        if isinstance(user, tileas.DotOp) and may_be_large(user):
            yield user


def _rings_of(op: Operation) -> Iterator[Operation | None]:
    """The pipe whose stage an operation fills or frees, or None for a ring without mbarriers; yields nothing for other
    operations."""
    if op.name in _ON_PIPES:
        yield analysis.pipes.pipe_of(op.operands[0])
    elif isinstance(op, (tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp)):
        yield tileas.pipe_of_buffer(op.buffer)
    elif isinstance(op, tileas.FenceProxyOp) or _is_of_a_ring(op):
        yield None


def _is_of_a_ring(op: Operation) -> bool:
    return op.name.startswith("nv_tileas.async.") and op.name not in _WITHIN_STAGES


def _operands_inside(op: Operation) -> Iterator[Value]:
    """The values that an operation uses, including those used in its regions."""
    if not op.regions:
        yield from op.operands
        return
    for inner in op.walk():
        yield from inner.operands


def _source(value: Value, block: Block) -> tuple[Operation, int] | None:
    """The operation of a block that defines a value, and how many iterations before; None for values from outside."""
    distance = 0
    while isinstance(value, BlockArgument) and value.block is block and value.index > 0:
        value = block.last.operands[value.index - 1]
        distance += 1
        if distance > _MOST_DISTANCE:
            break
    producer = value.defining_op
    if producer is None or producer.parent is not block:
        return None if distance <= _MOST_DISTANCE else (block.first, distance)
    return producer, distance


def _has_effect_without_token(op: Operation) -> bool:
    if op.regions and not isinstance(op, (tileas.ReduceOp, tileas.ScanOp)):
        return any(_has_effect_without_token(inner) for inner in op.walk() if inner is not op)
    if op.has_trait(NoMemoryEffect):
        return False
    return not any(isinstance(result.type, aa.MemTokenType) for result in op.results)


# ---- costs -----------------------------------------------------------------------------------------------------------


def _costs(
    operations: Sequence[Operation], staged: Sequence[StagedLoad], warps: int, table: Resources
) -> tuple[OperationCost, ...] | None:
    ahead = {each.load for each in staged}
    in_place = {leaf.convert: leaf.in_place for each in staged for leaf in each.leaves}
    costs = []
    for op in operations:
        cost: OperationCost | None
        if op in ahead:
            cost = OperationCost({}, 0.0, 0.0)
        elif op in in_place:
            cost = operation_cost(op, warps, table)
            # Once through the port instead of twice; not at all where a dot reads its tile where it lies.
            share = 0.0 if in_place[op] else 0.5
            busy = {unit: cycles * share for unit, cycles in cost.busy.items()} if share else {}
            cost = OperationCost(busy, share and cost.latency, share and cost.latency)
        elif op.regions and not isinstance(op, (tileas.ReduceOp, tileas.ScanOp)):
            busy_inside = nested_cost(op, warps, table)
            if busy_inside is None:
                return None
            length = max(busy_inside.values(), default=0.0)
            cost = OperationCost(busy_inside, length, length)
        else:
            cost = operation_cost(op, warps, table)
        costs.append(cost)
    return tuple(costs)


def _fuse(
    operations: Sequence[Operation], waits: Sequence[Wait], costs: Sequence[OperationCost]
) -> tuple[int, ...]:
    """The node of each operation, identified by the number of its last operation."""
    users: list[set[int]] = [set() for _ in operations]
    for wait in waits:
        users[wait.source].add(wait.target if wait.distance == 0 else -1)
    node_of = list(range(len(operations)))
    for number in reversed(range(len(operations))):
        op = operations[number]
        if len(users[number]) != 1 or isinstance(op, LOADS):
            continue
        (user,) = users[number]
        kept_by_end = any(user_op.parent is op.parent and user_op is op.parent.last
                          for result in op.results for user_op in result.users)  # fmt: skip
        if user >= 0 and not kept_by_end and _belongs_to(op, operations[user], costs[number]):
            node_of[number] = node_of[user]
    return tuple(node_of)


def _belongs_to(op: Operation, user: Operation, cost: OperationCost) -> bool:
    """Whether an operation gains nothing by being placed apart from its only user."""
    if not cost.busy:
        return True
    if isinstance(user, tileas.DOTS):
        return isinstance(op, tileas.ConvertLayoutOp)
    return is_elementwise(op) and is_elementwise(user)


def _graph(
    operations: Sequence[Operation], waits: Sequence[Wait], costs: Sequence[OperationCost], node_of: Sequence[int],
    grain: float,
) -> Graph:  # fmt: skip
    numbers = {node: number for number, node in enumerate(sorted(set(node_of)))}
    busy: list[dict[Unit, float]] = [{} for _ in numbers]
    latency = [0.0] * len(numbers)
    for number in range(len(operations)):
        own = busy[numbers[node_of[number]]]
        for unit, cycles in costs[number].busy.items():
            own[unit] = own.get(unit, 0.0) + cycles
    for number, cost in enumerate(costs):
        node = numbers[node_of[number]]
        if node_of[number] == number:
            waiting = cost.latency - max(cost.busy.values(), default=0.0)
            latency[node] = waiting + max(busy[node].values(), default=0.0)
    nodes = tuple(
        Node(operations[node].name, {unit.value: length for unit in _PLACED
                                     if (length := round(busy[number].get(unit, 0.0) / grain))})
        for node, number in numbers.items()
    )  # fmt: skip
    edges: dict[tuple[int, int, int], int] = {}
    for wait in waits:
        source, target = numbers[node_of[wait.source]], numbers[node_of[wait.target]]
        if source == target and wait.distance == 0:
            continue
        cycles = latency[source]
        if wait.value is None or isinstance(wait.value.type, aa.MemTokenType):
            cycles = 0.0
        elif _adds(operations[wait.source], operations[wait.target], wait.value):
            cycles = costs[wait.source].carried
        key = source, target, wait.distance
        edges[key] = max(edges.get(key, 0), round(cycles / grain))
    return Graph(nodes, tuple(Edge(source, target, cycles, distance)
                              for (source, target, distance), cycles in edges.items()))  # fmt: skip


def _adds(source: Operation, target: Operation, value: Value) -> bool:
    """Whether a dot accumulates onto another one's result."""
    return isinstance(source, tileas.DOTS) and isinstance(target, tileas.DOTS) and value is target.c
