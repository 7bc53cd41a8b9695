"""Checks of pipes whose stages the CTAs of a cluster fill for each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tileiras.dialects import arith
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.bulk_copies import TmaLoadOp
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
from tileiras.ir import Pure, Value
from tileiras.targets import Target
from tileiras.targets.atoms.bulk_copies import BOX_MULTICAST, BULK_COPY_ATOMS
from tileiras.targets.requirements import spell

from ..cluster_uniformity import ClusterUniformity
from ..derivations import is_derived
from . import FILLS, Finding, is_multicast, protocol_of, sources


def cluster_errors(pipe: CreatePipelineOp, operations: list[Any], gpu: Target) -> Iterator[Finding]:
    """Whether the CTAs that fill each other's stages are all CTAs of a cluster, and reach each stage equally often."""
    shared = [op for op in operations if is_multicast(op)]
    if pipe.ctas is None:
        yield from ((op, "copies to all CTAs of a cluster, on a pipe that one CTA fills") for op in shared)
        yield from _pair_errors(pipe, operations)
        return
    func: Any = pipe.parent_op
    if func.name != "nv_tileaa.func":
        yield pipe, "is a pipe between CTAs, and expects to stand in the function's own block"
        return
    requires = BULK_COPY_ATOMS[BOX_MULTICAST].requires
    if not gpu.meets(requires):
        yield pipe, f"is a pipe between CTAs, which needs {spell(requires)}, not {gpu.name}"
    if pipe.num_ctas != tileas.cluster_size(func):
        yield pipe, f"is a pipe between {pipe.num_ctas} CTAs, in a cluster of {tileas.cluster_size(func)}"
    values = ClusterUniformity(func)
    for op in operations:
        together = getattr(op, "together", None)
        if isinstance(op, FILLS):
            alike = values.is_reached_together(op) if together is None else values.is_reached_where(op, together)
            if not alike:
                yield op, "is on a pipe between CTAs, and some of them come to it more often than others"
            if together is not None and pipe.alone is None:
                yield op, "has a condition, on a pipe whose CTAs fill no stage alone"
        elif op in shared:
            yield from _shared_errors(op, values)


def _pair_errors(pipe: CreatePipelineOp, operations: list[Any]) -> Iterator[Finding]:
    """Whether both CTAs of a pair reach the operations on a pipe equally often; one CTA acts for both."""
    func: Any = pipe.parent_op
    if not protocol_of(pipe).is_of_pair or func.name != "nv_tileaa.func":
        return
    values = ClusterUniformity(func)
    apart = [op for op in operations if not values.is_reached_together(op)]
    yield from ((op, "is on a pipe of a pair of CTAs, and one CTA comes to it more often") for op in apart[:1])


def _shared_errors(load: TmaLoadOp, values: ClusterUniformity) -> Iterator[Finding]:
    """Whether a copy to all CTAs has the same tile for all, and they have acquired the stage together."""
    if not values.is_common(load.desc):
        yield load, "copies to all CTAs of a cluster a tile that is not the same for all"
        return
    if load.together is None:
        if not all(map(values.is_common, load.coords)):
            yield load, "copies to all CTAs of a cluster a tile that is not the same for all"
    elif not _is_told_same(load, values):
        yield load, "copies to all CTAs of a cluster where nothing says that the tile is the same for all"
    for acquire in sources(load.token):
        waited = getattr(acquire, "together", None)
        if waited is not None and (load.together is None or not _implies(load.together, waited)):
            yield load, "copies to all CTAs of a cluster where the stage may have been acquired for one"


def _is_told_same(load: TmaLoadOp, values: ClusterUniformity) -> bool:
    """Whether the coordinates of a shared copy are the same for all CTAs if its condition holds.

    The condition compares the values that each tile block computes; the coordinates must be pure functions of these and
    of common values.
    """
    same: Any = load.together.defining_op
    if same is None or same.name != names.IS_SAME_TILE or not values.is_common(load.together):
        return False
    result = list(zip(same.first, same.second))

    def derived_from(value: Value) -> Sequence[Value] | None:
        if values.is_common(value) or any(values.is_told_of(value, *each) for each in result):
            return ()
        op = value.defining_op
        return op.operands if op is not None and op.operands and op.has_trait(Pure) else None

    return is_derived(load.coords, derived_from)


def _implies(condition: Value, other: Value) -> bool:
    """Whether a condition implies another one: it is the same one, or an operand of the disjunction."""
    op = other.defining_op
    return condition is other or isinstance(op, arith.OrIOp) and any(_implies(condition, each) for each in op.operands)
