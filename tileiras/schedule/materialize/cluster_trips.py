"""Loops that tile blocks of one cluster, which share their copies, run more or less often.

    scf.for %i = 0 to %n {          computes                 loads, for all of the cluster
      %k = load ...                   scf.for %i = 0 to %n     scf.for %t = 0 to %most {
      ...                    ->       scf.for %n to %most {      acquire, copy a share, commit
    }                                   wait, release          }
                                      }

Each tile block computes the trip counts of the others, copies its share of every tile that any of them needs, and
releases the stages that it does not use.
"""

from __future__ import annotations

from tileiras.analysis.cluster_uniformity import ClusterUniformity, slice_of_numbers
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.ir import Block, Builder, IntegerAttr, Region, Value, i32
from tileiras.schedule.agents.channels import Pipe, Ring
from tileiras.schedule.agents.load_plan import LoopPlan
from tileiras.schedule.tensor_boxes import ctas_of


def most_trips(func: aa.FuncOp, plan: LoopPlan, builder: Builder) -> Value | None:
    """How often the tile block of a cluster that does so most often runs a loop; None where all do equally often, or
    copy for themselves."""
    loop = plan.loop
    if tileas.CLUSTER_BLOCKS not in func.attributes or all(ctas_of(pipe.first.loads) == 1 for pipe in plan.pipes):
        return None
    values = ClusterUniformity(func)
    if values.is_common(loop.lower_bound) and values.is_common(loop.upper_bound):
        return None
    builder.location = loop.location
    most: Value | None = None
    for rank in range(tileas.cluster_size(func)):
        ends = [of_neighbor(bound, rank, builder, {}) for bound in (loop.upper_bound, loop.lower_bound)]
        trips = binary(builder, arith.SubIOp, *ends)
        most = trips if most is None else binary(builder, arith.MaxSIOp, most, trips)
    return most


def of_neighbor(
    value: Value, rank: int, builder: Builder, values: dict[Value, Value], counter: Value | None = None
) -> Value:
    """The value that the tile block of a rank in the cluster computes, for a value that depends only on numbers and on
    the `counter` of a loop over tiles; `values`: those already recomputed, extended in place."""
    steps = slice_of_numbers(value, counter, loads=True)
    assert steps is not None, "loads of such loops only are shared"
    for op in (each for each in steps if each.results[0] not in values):
        for token in (each for each in op.operands if isinstance(each.type, aa.MemTokenType) and each not in values):
            # The program of another agent has the tokens of its own operations.
            values[token] = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType())).results[0]
        copy = op.clone(values)
        if isinstance(copy, aa.GetProgramIdOp) and copy.axis.value == "x" and copy.neighbor is None:
            copy.attributes["neighbor"] = IntegerAttr(rank, i32)
        values.update(zip(op.results, builder.insert(copy).results))
    return values.get(value, value)


def give_back_rest(loop: scf.ForOp, most: Value, pipes: list[Pipe], at: dict[Ring, Value]) -> None:
    """After a loop, waits for the stages that only others of the cluster use, and releases them; moves the iterators
    on."""
    builder = Builder.after(loop)
    builder.location = loop.location
    type = loop.induction_variable.type
    trips = binary(builder, arith.SubIOp, loop.upper_bound, loop.lower_bound)
    begin = binary(builder, arith.MaxSIOp, trips, integer(builder, 0, type))
    rings = list(dict.fromkeys(pipe.ring for pipe in pipes))
    inits = [at[ring] for ring in rings]
    body = Block([type, *(value.type for value in inits)])
    inner = Builder.at_end(body, loop.location)
    ends = []
    for ring, iterator in zip(rings, body.arguments[1:]):
        token = inner.insert(tileas.ConsumerWaitOp(ring.consumer, iterator)).results[0]
        inner.insert(tileas.ConsumerReleaseOp(token))
        ends.append(inner.insert(tileas.IncIterOp(iterator)).results[0])
    inner.insert(scf.YieldOp.create(ends))
    attributes = {tileas.LOOP_SCHEDULE: tileas.LoopScheduleAttr(tileas.SERIAL, 1)}
    bounds, types = (begin, most, loop.step), [value.type for value in inits]
    rest = scf.ForOp.create((*bounds, *inits), types, attributes, (Region([body]),), location=loop.location)
    at.update(zip(rings, builder.insert(rest).results))
