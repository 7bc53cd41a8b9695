"""Divides the work of a tile block among the CTAs of its cluster.

    %a = tiled_load %v[%i]     : tensor<128x64xf32>         %r = get_cta_rank
    tiled_store %a, %w[%i]                            ->    %a = tiled_load %v'[2 * %i + %r] : tensor<64x64xf32>
                                                            tiled_store %a, %w'[2 * %i + %r]

Stored tiles are cut into a slice for each CTA (see `slice_groups`); a dot's other operand is loaded by all of them.  No
CTA waits for another, so it is verified that none has to: two accesses that are ordered, one of them a write, and that
may overlap, have to overlap in the same CTA.  Operations without a dependent store are executed by all CTAs, with the
same result: loads of memory that is not written meanwhile, scalars, conditions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tileiras.analysis.alias import AliasAnalysis, address_of, data_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import (
    Builder,
    Convergent,
    MemoryWrite,
    NoMemoryEffect,
    Operation,
    RecursiveMemoryEffects,
    TensorType,
    Value,
    i32,
)
from tileiras.reasons import Argument, Reason

from .dimensions import ACCESSES, STORES, Access, RematerializedValues, Unsliceable
from .groups import Group, accesses_before, tile_alike
from .operations import SlicedOperations, tiling_beside


class Indivisible(Exception):
    """The reason for which the work cannot be divided among CTAs."""

    def __init__(self, place: Operation, code: str, /, **arguments: Argument) -> None:
        super().__init__(code)
        self.location = place.location
        self.reason = Reason(code, **arguments)  # type: ignore[arg-type]


def plan_cta(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Give each CTA a share of the work of a function of nv_tileaa, in place; a remark reports it.

    If that is impossible, the function is left unchanged, to be executed by one CTA, and a remark gives the reason.
    """
    parts = func.kernel_spec.num_ctas
    try:
        groups = _groups(func, parts)
        _check_order(func, groups.values())
    except Indivisible as error:
        if engine is not None:
            engine.emit(Remark(Reason("slices.first-cta", ctas=parts, cause=error.reason), error.location))
        return
    builder = Builder.before(func.body.block.first)
    builder.location = func.location
    rank = builder.insert(aa.GetCtaRankOp(result=i32)).results[0]
    rank = builder.insert(aa.AssumeOp(rank, predicate=aa.BoundedAttr(0, parts - 1), result=i32)).results[0]
    for store, group in groups.items():
        if engine is not None:
            shape = "x".join(map(str, data_of(store).type.shape))
            engine.emit(Remark(Reason("slices.shared-by-ctas", ctas=parts, shape=shape), store.location))
        _Share(group, rank).replace()


class _Share(SlicedOperations):
    """The one slice that a CTA processes, which replaces a group."""

    def __init__(self, group: Group, number: Value) -> None:
        super().__init__(group)
        self.counter = number

    def replace(self) -> None:
        ops = self.group.ops
        for op in ops:
            self.outer = self.inner = Builder.before(op)
            self.again(op)
            for result in op.results:
                if isinstance(result.type, aa.MemTokenType):
                    # The group's own operations are still needed.
                    others = [user for user in result.users if self.group.block.find_ancestor_op(user) not in ops]
                    result.replace_uses_in(self.values[result], others)
        for op in reversed(ops):
            op.erase()

    def _tiling(self, whole: aa.BlockTileOp, type: aa.TiledViewType) -> Value:
        if self.group.block.find_ancestor_op(whole) in self.group.ops:
            # A tiling in a loop of the group is erased with that loop; its source is outside.
            return super()._tiling(whole, type)
        return tiling_beside(whole, type)


# ---- division of the work --------------------------------------------------------------------------------------------


def _groups(func: aa.FuncOp, parts: int) -> dict[Any, Group]:
    """Groups that hold every store of the function, by a store of each."""
    aliases, rematerialized = AliasAnalysis(), RematerializedValues()
    groups: dict[Any, Group] = {}
    ops: set[Operation] = set()
    for op in func.walk():
        if op is func or op.has_trait(RecursiveMemoryEffects):
            continue
        if op.has_trait(NoMemoryEffect) and not op.has_trait(Convergent):
            continue
        if not isinstance(op, ACCESSES) or op.mem_semantic.value != "weak":
            raise Indivisible(op, "slices.executes-once", op=op.name)
        if not isinstance(op, STORES) or op in ops:
            continue
        group = groups[op] = _group(op, parts, aliases, rematerialized)
        inside = {inner for unit in group.ops for inner in unit.walk()}
        if inside & ops:
            raise Indivisible(op, "slices.cut-twice")
        ops |= inside
    if not groups:
        raise Indivisible(func, "slices.no-store")
    return groups


def _group(
    store: aa.StoreOp | aa.TiledStoreOp, parts: int, aliases: AliasAnalysis, rematerialized: RematerializedValues
) -> Group:
    """The group of a stored tile, cut along the slowest dimension whose slices are independent of each other."""
    data = data_of(store)
    if not isinstance(data.type, TensorType):
        raise Indivisible(store, "slices.scalar")
    if data in rematerialized or data.defining_op is not None and data.defining_op.parent is store.parent:
        for dim in range(data.type.rank):
            try:
                group = Group(data, dim, parts, aliases, rematerialized, consumer=store)
            except Unsliceable:
                continue
            if group.phase_count == 1 and not group.crosses_slices:
                return group
    raise Indivisible(store, "slices.dependent", parts=parts)


# ---- order -----------------------------------------------------------------------------------------------------------


def _check_order(func: aa.FuncOp, groups: Iterable[Group]) -> None:
    """Raise Indivisible when a CTA would have to wait for another."""
    aliases = AliasAnalysis()
    cuts: dict[Operation, int] = {}
    for group in groups:
        cuts.update(group.accesses)
    for second in func.walk():
        if not isinstance(second, ACCESSES):
            continue
        for first in accesses_before(second, func):
            writes = first.has_trait(MemoryWrite) or second.has_trait(MemoryWrite)
            if writes and aliases.may_alias(address_of(first), address_of(second)):
                dims = {cuts.get(op) for op in (first, second)}
                if len(dims) > 1 or not _have_one_owner(first, second, dims.pop(), func):
                    raise Indivisible(second, "slices.meets-other-cta")


def _have_one_owner(first: Access, second: Access, dim: int | None, func: aa.FuncOp) -> bool:
    """Whether two accesses, both cut along `dim`, touch an address in the same CTA or not at all."""
    if dim is None:
        return False
    if hasattr(first, "pointer") and hasattr(second, "pointer"):
        # In a loop, pointers of the next iteration may lead to elements of another CTA.
        return first.pointer is second.pointer and first.parent is second.parent is func.body.block
    # If tiles are side by side, the place in memory determines the slice of an element.
    return tile_alike(first, second) and first.view.type.traversal_strides[dim] % first.view.type.shape[dim] == 0
