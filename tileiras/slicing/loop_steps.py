"""Splits the steps of loops of dots whose tiles are so large that shared memory holds too few stages.

    for %i = %l to %h carrying %c:                          for %s = 2 * %l to 2 * %h carrying %c:
      %a = tiled_load %v[%m, %i] : tensor<128x64xf16>         %a = tiled_load %x[%m, %s] : tensor<128x32xf16>
      %b = tiled_load %w[%i, %n] : tensor<64x256xf16>  ->     %b = tiled_load %y[%s, %n] : tensor<32x256xf16>
      dot %a, %b, %c                                          dot %a, %b, %c

With two stages one is read while the other is filled, and no copy is in flight for longer than the dots of a stage
take; with four stages of half the size three are in flight.  Sums keep their order.  Only dots that warps execute by
themselves are cut: those of `wgmma` and `tcgen05` are issued by the step, and are in flight while others begin.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.alias import AliasAnalysis
from tileiras.analysis.ranges import Range, RangeAnalysis, whole
from tileiras.assignment.dot_plans import DotPlans
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith.build import binary, integer
from tileiras.ir import (
    Block,
    Builder,
    Convergent,
    IntegerAttr,
    IntegerType,
    NoMemoryEffect,
    Region,
    Value,
    i32,
    i64,
)
from tileiras.reasons import Reason
from tileiras.resources.large_dots import accumulates_wider
from tileiras.resources.shared_memory import shared_budget
from tileiras.targets import find_copy_atom, known_mma_atom

from .dimensions import RematerializedValues, Unsliceable, k_dims
from .groups import Group
from .operations import SlicedOperations, tiling_beside

LEAST_STEP_BYTES = 64
"""The fewest bytes of a slice along K: the narrowest swizzle whose eight rows for `ldmatrix` lie in different banks."""


def split_loop_steps(func: aa.FuncOp, dots: DotPlans, stages: int, engine: DiagnosticEngine | None = None) -> None:
    """Cut the steps of loops of a function of nv_tileaa until shared memory holds `stages` of them, in place; a
    remark says which."""
    if find_copy_atom(dots.target, "global", "shared", asynchronous=True) is None:
        return
    budget = shared_budget(func, dots.target)
    ranges, rematerialized = RangeAnalysis(), RematerializedValues()
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        result = _dots_of(loop, dots)
        if not result or (stage := _stage_bytes(loop)) * stages <= budget:
            continue
        depth = result[0].a.type.shape[-1]
        parts = 1
        while budget * parts < stage * stages and _can_halve(result, parts, dots):
            parts *= 2
        group = _group(loop, result, parts, rematerialized) if parts > 1 else None
        if group is None:
            continue
        if engine is not None:
            reason = Reason(
                "slices.steps", parts=parts, depth=depth // parts, whole=depth, held=budget // stage, wanted=stages,
                bytes=stage,
            )  # fmt: skip
            engine.emit(Remark(reason, loop.location))
        _SplitLoop(loop, group, ranges).replace()


def _dots_of(loop: scf.ForOp, plans: DotPlans) -> list[aa.DotOp]:
    """The dots of a loop whose steps can be cut: those that warps execute, each adding to a value that the loop
    carries; it carries no others.  Empty for a loop with other operations than loads and dots."""
    step = loop.step.defining_op
    if loop.unsignedCmp is not None or not isinstance(loop.lower_bound.type, IntegerType):
        return []
    if not isinstance(step, arith.ConstantOp) or not isinstance(step.value, IntegerAttr) or step.value.value != 1:
        return []
    operations: list[aa.DotOp] = []
    for op in loop.body.block.operations:
        if isinstance(op, aa.DotOp):
            operations.append(op)
        elif isinstance(op, aa.TiledLoadOp):
            if op.mem_semantic.value != "weak" or any(r.has_uses for r in op.results if _is_token(r)):
                return []
        elif op is not loop.yield_op and (not op.has_trait(NoMemoryEffect) or op.has_trait(Convergent) or op.regions):
            return []
    carried = zip(loop.iter_args, loop.yield_op.operands, strict=True)
    adding = {op.c: op.result for op in operations}
    if len(loop.iter_args) != len(operations) or any(adding.get(c) is not result for c, result in carried):
        return []
    once = all(len(list(v.users)) == 1 for op in operations for v in (op.c, op.result))
    by_warps = all(
        known_mma_atom(plans.plan(op).atom) is not None and not _is_asynchronous(op, plans) for op in operations
    )
    return operations if once and by_warps and not any(map(accumulates_wider, operations)) else []


def _is_token(value: Value) -> bool:
    return isinstance(value.type, aa.MemTokenType)


def _is_asynchronous(op: aa.DotOp, plans: DotPlans) -> bool:
    return plans.plan(op).atom.startswith(("wgmma", "tcgen05"))


def _stage_bytes(loop: scf.ForOp) -> int:
    """Bytes of the tiles of one step."""
    types = [op.results[0].type for op in loop.body.block.operations if isinstance(op, aa.TiledLoadOp)]
    return sum(type.num_elements * type.element_type.width // 8 for type in types)


def _can_halve(dots: list[aa.DotOp], parts: int, plans: DotPlans) -> bool:
    """Whether half of a slice is still a step of each instruction, and as wide as memory and banks require."""
    for op in dots:
        atom = known_mma_atom(plans.plan(op).atom)
        assert atom is not None, "a dot of warps"
        depth = op.a.type.shape[-1] // (2 * parts)
        narrow = min(v.type.element_type.width for v in (op.a, op.b))
        if depth % atom.shape[2] or depth * narrow < 8 * LEAST_STEP_BYTES:
            return False
    return True


def _group(loop: scf.ForOp, dots: list[aa.DotOp], parts: int, rematerialized: RematerializedValues) -> Group | None:
    """The operations that are cut together with the operands of the dots: they have to be all loads and dots of the
    loop."""
    block = loop.body.block
    loads = {op for op in block.operations if isinstance(op, aa.TiledLoadOp)}
    operands = zip(dots[0].operands, k_dims(dots[0]))
    seeds = [(v, dim) for v, dim in operands if dim is not None and v.parent_block is block and v not in rematerialized]
    if not seeds or seeds[0][0].defining_op is None:
        return None
    try:
        group = Group(*seeds[0], parts, AliasAnalysis(), rematerialized, along_k=True)
    except Unsliceable:
        return None
    whole_loop = group.block is block and not group.loops and loads == group.accesses.keys()
    return group if whole_loop and group.phase_count == 1 and group.roots == set(dots) else None


class _SplitLoop(SlicedOperations):
    """A loop with as many steps as the slices of its tiles."""

    def __init__(self, loop: scf.ForOp, group: Group, ranges: RangeAnalysis) -> None:
        super().__init__(group)
        self.loop = loop
        self.old: Value = loop.induction_variable
        limits = whole(i32)
        bounds = [ranges.range(v) for v in (loop.lower_bound, loop.upper_bound)]
        small = self.old.type.width <= 32 and all(
            Range(group.parts * each.low, group.parts * each.high).inside(limits) for each in bounds
        )
        self.type: IntegerType = i32 if small else i64

    def replace(self) -> None:
        """Replace the old loop."""
        loop, parts = self.loop, self.group.parts
        self.outer = Builder.before(loop)
        self.outer.location = loop.location
        bounds = [self._bound(v) for v in (loop.lower_bound, loop.upper_bound)]
        old = loop.body.block
        body = Block([self.type, *(v.type for v in loop.iter_args)], [a.location for a in old.arguments])
        self.step: Value = body.arguments[0]
        self.inner = Builder.at_end(body)
        self.inner.location = loop.location
        shift = integer(self.inner, parts.bit_length() - 1, self.type)
        counter = binary(self.inner, arith.ShRSIOp, self.step, shift)
        part = binary(self.inner, arith.AndIOp, self.step, integer(self.inner, parts - 1, self.type))
        self.counter = part if self.type is i32 else self.inner.insert(arith.TruncIOp(part, result=i32)).results[0]
        self.whole = self._narrow(counter)
        self.old.replace_all_uses_with(self.whole)
        for before, after in zip(loop.iter_args, body.arguments[1:]):
            before.replace_all_uses_with(after)
        group, end = set(self.group.ops), loop.yield_op
        for op in list(old.operations):
            if op is end:
                self.inner.insert(scf.YieldOp.create([self.values.get(v, v) for v in end.operands]))
            elif op in self.group.roots:
                self._multiply(op)
            elif op in group:
                self.again(op)
            else:
                op.detach()
                self.inner.insert(op)
        one = integer(self.outer, 1, self.type)
        result = scf.ForOp.create(
            (*bounds, one, *loop.init_args), [r.type for r in loop.results], dict(loop.attributes), (Region([body]),),
            location=loop.location,
        )  # fmt: skip
        self.outer.insert(result)
        loop.replace_all_uses_with(result.results)
        loop.erase()

    def _bound(self, value: Value) -> Value:
        """A bound of the old loop in steps of the new one."""
        parts, op = self.group.parts, value.defining_op
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return integer(self.outer, parts * op.value.value, self.type)
        if value.type.width < self.type.width:
            value = self.outer.insert(arith.ExtSIOp(value, result=self.type)).results[0]
        return binary(self.outer, arith.MulIOp, value, integer(self.outer, parts, self.type))

    def _narrow(self, counter: Value) -> Value:
        """The old counter, in its type."""
        width: int = self.old.type.width
        if width == self.type.width:
            return counter
        cls = arith.TruncIOp if width < self.type.width else arith.ExtSIOp
        return self.inner.insert(cls(counter, result=self.old.type)).results[0]

    def _multiply(self, op: Any) -> None:
        self.inner.location = op.location
        operands = [self.values.get(op.c, op.c) if d is None else self._slice(v, d) for v, d in
                    zip(op.operands, k_dims(op))]  # fmt: skip
        new = self.inner.insert(type(op).create(operands, (op.result.type,), dict(op.attributes)))
        self.values[op.result] = new.results[0]

    def _coordinate(self, coordinate: Value, cut: aa.CutView) -> Value:
        """The step itself where tiles follow each other with the old counter."""
        if coordinate is self.whole and (cut.steps_of_tile, cut.steps_of_slice) == (self.group.parts, 1):
            return self.step
        return super()._coordinate(coordinate, cut)

    def _tiling(self, whole: aa.BlockTileOp, type: aa.TiledViewType) -> Value:
        return tiling_beside(whole, type)
