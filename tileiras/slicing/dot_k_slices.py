"""Dots of operands that do not fit in registers become loops over K, a slice of each operand in an iteration.

    %a = tiled_load %v[%i, %j]     : tensor<128x256xf16>      %d = for %s in 0 .. 4 carrying %c:
    %b = tiled_load %w[%j, %k]     : tensor<256x128xf16>   ->   %a = tiled_load %x[%i, 4 * %j + %s] : tensor<128x64xf16>
    %d = dot %a, %b, %c                                         %b = tiled_load %y[4 * %j + %s, %k] : tensor<64x128xf16>
                                                                dot %a, %b, %carried

The additions keep their order.  Loads of such a loop run ahead like those of any other.  Dots that stand in a loop
already stay whole while shared memory holds their operands, which then do not pass through registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.alias import AliasAnalysis
from tileiras.assignment.dot_plans import DotPlans
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import Value
from tileiras.layout.arena import SCRATCH_LIMIT
from tileiras.reasons import Reason
from tileiras.resources.large_dots import UNROLLED, accumulates_wider
from tileiras.resources.limits import WHOLE_LIMIT, registers_for_tiles
from tileiras.resources.shared_memory import shared_budget
from tileiras.targets import (
    SCALED_MMA_ATOMS,
    UNIVERSAL_FMA,
    Target,
    find_copy_atom,
    known_mma_atom,
)

from .dimensions import DOTS, SHAPES, RematerializedValues, Unsliceable, is_elementwise, k_dims
from .groups import Group
from .loops import SlicedLoops

if TYPE_CHECKING:
    from tileiras.layout.linear_layout import LinearLayout

LOADED_LIMIT = 48
"""The most registers for slices of both operands between load and dot: 64 columns of f16 of a tile of 128x256."""

APART_LIMIT = 128
"""The same where each element has a register of its own, as after accesses of single ones."""

FRAGMENT_LIMIT = 128
"""The most registers for slices of both operands in the dot's layouts, where warps share rows or columns."""

LEAST_BYTES = 32
"""The fewest bytes of a slice along K: a sector of memory."""


def slice_dots(func: aa.FuncOp, num_warps: int, dots: DotPlans, engine: DiagnosticEngine | None = None) -> None:
    """Cut the dots of a function of nv_tileaa that take too many registers, in place; a remark says which."""
    sizes = _Sizes(32 * num_warps, dots)
    shared = _shared_bytes(func, dots.target)
    available = registers_for_tiles(32 * num_warps, func.kernel_spec.occupancy or 1)
    aliases, rematerialized = AliasAnalysis(), RematerializedValues()
    for op in [op for op in func.walk() if isinstance(op, DOTS)]:
        # A dot may have been cut together with another one that has the same operand.
        if op.parent is None or accumulates_wider(op):
            continue
        registers = sizes.registers(op)
        if any(scf.loops_around(op)):
            fits = registers <= available or _bytes(op.a) + _bytes(op.b) <= shared
        else:
            fits = registers <= min(WHOLE_LIMIT, available) and sizes.apart(op) <= available
        if fits:
            continue
        group = None
        parts = sizes.parts(op)
        while parts > 1 and group is None:
            group = _group(op, parts, aliases, rematerialized)
            parts //= 2
        if group is None:
            continue
        if engine is not None:
            rows, depth = op.a.type.shape[-2:]
            columns = op.b.type.shape[-1]
            reason = Reason("slices.depth", m=rows, k=depth, n=columns, parts=group.parts, registers=registers)
            engine.emit(Remark(reason, op.location))
        SlicedLoops(group).run()


def _group(op: aa.Dot, parts: int, aliases: AliasAnalysis, rematerialized: RematerializedValues) -> Group | None:
    """The operations that are cut together with the operands of a dot; None if they cannot be cut."""
    for value, dim in zip(op.operands, k_dims(op)):
        origin = value.defining_op
        if dim is None or origin is None or origin.parent is not op.parent or value in rematerialized:
            continue
        try:
            return Group(value, dim, parts, aliases, rematerialized, along_k=True)
        except Unsliceable:
            return None
    return None


def _shared_bytes(func: aa.FuncOp, target: Target) -> int:
    """Bytes of shared memory that copies can fill by themselves."""
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    return 0 if atom is None else shared_budget(func, target)


class _Sizes:
    """The registers of dots, for one number of threads."""

    def __init__(self, threads: int, dots: DotPlans) -> None:
        self._threads = threads
        self._dots = dots

    def registers(self, op: aa.Dot) -> int:
        """32-bit registers of a thread that a dot needs: accumulators, and operands in the layout of their loads or of
        the atom."""
        return self._share(op.result, _width(op.result)) + max(self._loaded(op), self._operand_registers(op))

    def parts(self, op: aa.Dot) -> int:
        """Into how many slices the operands are cut, a power of two."""
        depth = op.a.type.shape[-1]
        least = max(self._atom_depth(op), *(8 * LEAST_BYTES // _width(v) for v in (op.a, op.b)))
        plan = self._dots.plan(op)
        fragments = 0
        if plan.atom != UNIVERSAL_FMA:
            fragments = sum(_words(layout, v) for layout, v in ((plan.a, op.a), (plan.b, op.b)))
        limits = (self._loaded(op), LOADED_LIMIT), (self.apart(op), APART_LIMIT), (fragments, FRAGMENT_LIMIT)
        parts = 1
        while depth // parts >= 2 * least and any(registers > limit * parts for registers, limit in limits):
            parts *= 2
        return parts

    def apart(self, op: aa.Dot) -> int:
        """Elements of a thread of both operands, as they come from memory."""
        return sum(self._share(v, 32) for v in (op.a, op.b))

    def _share(self, value: Value, width: int) -> int:
        return -(-value.type.num_elements * width // (32 * self._threads))

    def _loaded(self, op: aa.Dot) -> int:
        return sum(self._share(v, _loaded_width(v)) for v in (op.a, op.b))

    def _operand_registers(self, op: aa.Dot) -> int:
        """Registers of operands that are all live before the dot begins: those that shared memory does not hold while
        the dot reads them a step at a time.  Loops over multiply-adds read all of their operands so."""
        plan = self._dots.plan(op)
        if plan.atom == UNIVERSAL_FMA and plan.c.registers * op.a.type.shape[-1] > UNROLLED:
            return 0
        sizes = [(_bytes(v), _words(layout, v)) for layout, v in ((plan.a, op.a), (plan.b, op.b))]
        sizes_in_registers = [words for size, words in sizes if size > SCRATCH_LIMIT]
        if not sizes_in_registers and sum(size for size, _ in sizes) > SCRATCH_LIMIT:
            sizes_in_registers = [max(words for _, words in sizes)]
        return sum(sizes_in_registers)

    def _atom_depth(self, op: aa.DotOp) -> int:
        """The depth of a step."""
        name = self._dots.plan(op).atom
        atom = known_mma_atom(name) or SCALED_MMA_ATOMS.get(name)
        depth = 1 if atom is None else atom.shape[2]
        if not isinstance(op, aa.BlockScaledMmaOp):
            return depth
        # Scales in tensor memory come in words of four.
        return 4 * op.block if name.startswith("tcgen05_") else max(depth, op.block)


def _width(value: Value) -> int:
    """Bits that an element takes in registers: narrower ones are held as bytes."""
    return max(8, getattr(value.type.element_type, "width", 64))


def _bytes(value: Value) -> int:
    return value.type.num_elements * _width(value) // 8


def _words(layout: LinearLayout, value: Value) -> int:
    return -(-layout.registers * _width(value) // 32)


def _loaded_width(value: Value) -> int:
    """The width of an operand's elements where they come from memory, before they are converted."""
    op: Any = value.defining_op
    while isinstance(op, SHAPES) or op is not None and len(op.operands) == 1 and is_elementwise(op):
        value = op.operands[0]
        op = value.defining_op
    return _width(value)
