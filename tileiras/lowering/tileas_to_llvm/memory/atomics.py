"""Atomic updates: one instruction per element, or a loop of exchanges, by one thread for each element.

Threads that hold copies of an element must not execute its update again; when the old values are used in a layout
with copies, they are handed to the others (`replicas`).

Updates that release or acquire are made by relaxed instructions between two fences where a thread makes several (PTX
ISA, "Release and Acquire Patterns"): ptxas 13.5 puts a fence of its own beside each instruction that does so by itself,
which waits for the update before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.dialects import llvm, nvvm
from tileiras.dialects.nvvm.atomics import atomic_form
from tileiras.ir import FloatType, IntegerType, Operation, StringAttr, Value, VerifyError, i32
from tileiras.layout import LinearLayout
from tileiras.layout.memory import register_groups
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.requirements import admits

from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, vector_of
from .access import SCOPES, address_text, guarded, load_vector, ordering_of, register_list
from .masked_vectors import by_bounds, vector_axis, vector_bits
from .replicas import from_elected, representative
from .views import TileAddresses

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas

    Atomic = tileas.AtomicCASOp | tileas.AtomicRMWOp | tileas.TiledAtomicRMWOp

# nv_tileaa's names of the operations -> PTX's (nvvm.atom).
_OPERATIONS = {
    "and": "and",
    "or": "or",
    "xor": "xor",
    "add": "add",
    "addf": "fadd",
    "max": "max",
    "min": "min",
    "umax": "umax",
    "umin": "umin",
    "xchg": "exch",
}

# Updates that some target has no instruction for -> how to combine the old value and the operand.
_COMBINATIONS: dict[str, Callable[[Value, Value], Any]] = {"fadd": llvm.FAddOp}

_EXCHANGED_BITS = (16, 32, 64)
"""Widths of `atom.cas` (PTX ISA, "atom"; .b16 from sm_70 on)."""


def _order(op: Atomic) -> tuple[str, str]:
    """PTX's order and scope; a weak update becomes a relaxed one, which no thread outside the block observes."""
    if op.mem_semantic.value == "weak":
        return "relaxed", "gpu"
    return op.mem_semantic.value, SCOPES[op.mem_scope.value]


_RELEASES, _ACQUIRES = ("release", "acq_rel"), ("acquire", "acq_rel")

_FENCED_SCOPES = {"cta": "block", "cluster": "cluster", "gpu": "device", "sys": ""}
"""PTX's names of scopes -> LLVM's."""


@contextmanager
def _ordered(op: Atomic, count: int, lowering: FunctionLowering) -> Iterator[str]:
    """The order of each of `count` instructions by which a thread makes an update."""
    order, scope = _order(op)
    if count == 1 or order == "relaxed":
        yield order
        return

    def fence() -> None:
        whole = llvm.AtomicOrderingAttr("acq_rel"), StringAttr(_FENCED_SCOPES[scope])
        lowering.emit.insert(llvm.FenceOp(ordering=whole[0], syncscope=whole[1]))

    if order in _RELEASES:
        fence()
    yield "relaxed"
    if order in _ACQUIRES:
        fence()


class _Update:
    """One atomic update, made for each element: its kind, order and scope, and whether the old value is used, as it
    is by all updates that acquire: they have to read it."""

    def __init__(self, op: Atomic, kind: str, order: str, uses_result: bool, lowering: FunctionLowering) -> None:
        self.kind = kind
        result, self.scope = _order(op)
        self.order = order
        self.wanted = uses_result or result in _ACQUIRES
        self.lowering = lowering

    def at(self, pointer: Value, values: Sequence[Value], predicate: Value | None) -> Value | None:
        """The old value, None if it is not used; `values`: the operand, preceded for `cas` by the expected value.

        Where `predicate` is false no update happens, and the old value is the expected one (zero if there is none).
        """
        type = values[-1].type
        form = atomic_form(self.kind, type)
        if form is not None and admits(form.sm, self.lowering.target.name):
            return self._instruction(pointer, values, predicate)
        combine = _COMBINATIONS.get(self.kind)
        if combine is None or type.width not in _EXCHANGED_BITS:
            mode = next((mode for mode, name in _OPERATIONS.items() if name == self.kind), self.kind)
            subject = f"atomic '{mode}' of '{type}'"
            raise VerifyError(f"{subject} is not supported on {self.lowering.target.name}", prefix=False)
        return self._exchange_loop(pointer, values[-1], combine, predicate)

    def _instruction(self, pointer: Value, values: Sequence[Value], predicate: Value | None) -> Value | None:
        lowering, emit = self.lowering, self.lowering.emit
        order, scope = nvvm.MemOrderAttr(self.order), nvvm.MemScopeAttr(self.scope)
        kind = nvvm.AtomicOpAttr(self.kind)
        # `red` has no acquire and no exchange; the assembler drops an unused result.
        without_result = not self.wanted and self.order in ("relaxed", "release") and self.kind not in ("exch", "cas")
        compared = list(values[:-1])
        op: Any
        if without_result:
            op = nvvm.RedOp(pointer, values[-1], op=kind, order=order, scope=scope)
        else:
            op = nvvm.AtomOp(pointer, values[-1], *compared, op=kind, order=order, scope=scope)
        if without_result:
            return guarded(lowering, op, predicate)
        return guarded(lowering, op, predicate, compared[0] if compared else emit.zeros(values[-1].type))

    def _exchange_loop(self, pointer: Value, value: Value, combine: type[Operation], predicate: Value | None) -> Value:
        """Read, combine and exchange until no other thread has interfered.

        Whenever a thread has to try again another one has succeeded, so that lanes of a warp that contend for one
        address make progress in any scheduling order.
        """
        lowering, emit = self.lowering, self.lowering.emit
        bits = IntegerType(value.type.width)
        again, exit_block = lowering.new_block([bits]), lowering.new_block([bits])
        if predicate is not None:
            first = lowering.new_block()
            emit.insert(llvm.CondBrOp(predicate, [], [emit.zeros(bits)], trueDest=first, falseDest=exit_block))
            emit.block = first
        before = load_vector(lowering, pointer, 0, bits, ordering=f".relaxed.{self.scope}")
        emit.insert(llvm.BrOp([before], dest=again))
        emit.block = again
        (assumed,) = again.arguments
        updated = emit.insert(combine(emit.bitcast(assumed, value.type), value))
        exchange = nvvm.AtomOp(
            pointer,
            emit.bitcast(updated, bits),
            assumed,
            op=nvvm.AtomicOpAttr("cas"),
            order=nvvm.MemOrderAttr(self.order),
            scope=nvvm.MemScopeAttr(self.scope),
        )
        result = emit.insert(exchange)
        succeeded = emit.icmp("eq", result, assumed)
        emit.insert(llvm.CondBrOp(succeeded, [result], [result], trueDest=exit_block, falseDest=again))
        emit.block = exit_block
        return emit.bitcast(exit_block.arguments[0], value.type)


def _distinct(layout: LinearLayout) -> int:
    """The elements of a tile that a thread updates."""
    free = layout.free_variable_masks()["register"]
    return sum(not register & free for register in range(layout.registers))


def _through_pointers(
    op: Atomic, kind: str, values: Sequence[Value], lowering: FunctionLowering
) -> list[Any]:
    emit = lowering.emit
    layout = lowering.layout(op.pointer)
    pointers = lowering.value(op.pointer)
    mask = lowering.value(op.mask) if op.mask is not None else None
    free = layout.free_variable_masks()
    acting = representative(layout, lowering)
    uses_result = bool(list(op.data.users))
    results: list[Any] = []
    with _ordered(op, _distinct(layout), lowering) as order:
        update = _Update(op, kind, order, uses_result, lowering)
        for register in range(layout.registers):
            first = register & ~free["register"]
            if first != register:
                results.append(results[first])
                continue
            active = emit.extract(mask, register) if mask is not None else None
            operands = [emit.extract(v, register) for v in values]
            results.append(update.at(emit.extract(pointers, register), operands, emit.both(acting, active)))
    if not uses_result:
        return [None, None]
    return [from_elected(emit.build(results), layout, lowering), None]


def atomic_rmw(op: tileas.AtomicRMWOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    if op.atom is not None and not op.data.has_uses and _sums_of_neighbours(op, lowering):
        return [None, None]
    return _through_pointers(op, _OPERATIONS[op.rmw_mode.value], [lowering.value(op.value)], lowering)


def atomic_cas(op: tileas.AtomicCASOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """Floats are compared by their bits, as PTX does."""
    emit = lowering.emit
    values = [lowering.value(op.compare), lowering.value(op.value)]
    element_type = element_of(values[0].type)
    if isinstance(element_type, FloatType):
        bits = IntegerType(element_type.width)
        values = [emit.bitcast(v, vector_of(bits, count_of(v.type))) for v in values]
    old, token = _through_pointers(op, "cas", values, lowering)
    return [None if old is None else emit.bitcast(old, vector_of(element_type, count_of(old.type))), token]


class _Sum(NamedTuple):
    """A sum of several neighbours at once: the instruction's operation and type, elements to a register."""

    operation: str
    type: str
    packed: int
    letter: str


# LLVM element -> (the sum, lowest SM of one register of it); several registers need sm_90 (PTX ISA, "red").
_SUMS = {
    "f16": (_Sum("add.noftz", "f16x2", 2, "r"), "75"),
    "bf16": (_Sum("add.noftz", "bf16x2", 2, "r"), "90"),
    "f32": (_Sum("add", "f32", 1, "f"), "75"),
}
_VECTOR_SM, _VECTOR_PTX = "90", "8.1"


def _neighbours(
    op: tileas.AtomicRMWOp | tileas.TiledAtomicRMWOp, element: FloatType | IntegerType, lowering: FunctionLowering
) -> int:
    """How many elements one instruction updates."""
    sum_, sm = _SUMS.get(str(element), (None, ""))
    if sum_ is None or op.rmw_mode.value != "addf" or getattr(op, "multicast", None) is not None:
        return 1
    if not admits(sm, lowering.target.name):
        return 1
    most = 16 * 8 // element.width if admits(_VECTOR_SM, lowering.target.name) else sum_.packed
    return min(op.atom.vector_size, most)


def _sums_of_neighbours(op: tileas.AtomicRMWOp, lowering: FunctionLowering) -> bool:
    """Add a tile through pointers, several neighbours at once; false, without code, where they are added singly."""
    emit, layout = lowering.emit, lowering.layout(op.pointer)
    value, axis = lowering.value(op.value), vector_axis(op, layout)
    size = 1 if axis is None else _neighbours(op, element_of(value.type), lowering)
    if axis is None or size == 1:
        return False
    pointers = lowering.value(op.pointer)
    mask = lowering.value(op.mask) if op.mask is not None else None
    free, acting = layout.free_variable_masks()["register"], representative(layout, lowering)
    # Between fences: a sum of neighbours that acquires by itself is one for each of them.
    with _ordered(op, size, lowering) as order:
        for group in register_groups(layout.registers, vector_bits(layout, axis, size)):
            if not group[0] & free:
                active = emit.extract(mask, group[0]) if mask is not None else None
                pointer, predicate = emit.extract(pointers, group[0]), emit.both(acting, active)
                _sum(pointer, 0, emit.shuffle(value, group), op, order, predicate, lowering)
    return True


def _sum(
    pointer: Value,
    offset: int,
    values: Value,
    op: tileas.AtomicRMWOp | tileas.TiledAtomicRMWOp,
    order: str,
    predicate: Value | None,
    lowering: FunctionLowering,
) -> None:
    """Add neighbours to memory, each of them atomically; updates that acquire read the old values (`_Update`)."""
    emit = lowering.emit
    sum_, _ = _SUMS[str(element_of(values.type))]
    count = count_of(values.type) // sum_.packed
    words = values if sum_.packed == 1 else emit.bitcast(values, vector_of(i32, count))
    _, scope = _order(op)
    vector = f".v{count}" if count > 1 else ""
    result, _ = _order(op)
    reads = result in _ACQUIRES
    instruction = f"{'atom' if reads else 'red'}.{order}.{scope}.global.{sum_.operation}{vector}.{sum_.type}"
    old = [f"old{n}" for n in range(count)] if reads else []
    listed = f"{{{', '.join(old)}}}, " if count > 1 else f"{''.join(old)}, "
    text = f"{instruction} {listed if reads else ''}{address_text(0, offset)}, {register_list(1, count)};"
    args = [pointer, *(emit.extract(words, n) for n in range(count))]
    letters = ["l", *[sum_.letter] * count]
    if predicate is not None:
        text = f"@${count + 1} {text}"
        args.append(predicate)
        letters.append("b")
    if reads:
        kind = "f32" if sum_.letter == "f" else "b32"
        text = f"{{ .reg .{kind} {', '.join(old)}; {text} }}"
    emit.assembly(text, ",".join([*letters, "~{memory}"]), args, min_ptx=_VECTOR_PTX if count > 1 else None)


def tiled_atomic_rmw(op: tileas.TiledAtomicRMWOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    layout = lowering.layout(op.data)
    addresses = TileAddresses(op, layout, lowering)
    value = lowering.value(op.data)
    free = layout.free_variable_masks()
    acting = representative(layout, lowering)
    size = _neighbours(op, element_of(value.type), lowering)
    axis = addresses.fastest() if addresses.rank else 0

    def combine(width: int, masked: bool) -> None:
        update = _Update(op, _OPERATIONS[op.rmw_mode.value], order, False, lowering)
        for group in register_groups(layout.registers, vector_bits(layout, axis, width) if width > 1 else ()):
            if group[0] & free["register"]:
                continue
            pointer, offset = addresses.address(group[0])
            predicate = emit.both(acting, addresses.mask(group[0]) if masked else None)
            elements = emit.shuffle(value, group)
            if width > 1:
                _sum(pointer, offset, elements, op, order, predicate, lowering)
            elif op.multicast is None:
                update.at(emit.gep(pointer, offset), [elements], predicate)
            else:
                mode = op.rmw_mode.value
                place = emit.gep(pointer, offset)
                multimem = tileiras.lowering.tileas_to_llvm.memory.multimem
                multimem.reduce(lowering, mode, place, elements, predicate, ordering_of(op))

    # Updates in switches of multicast memory have orders of their own.
    count = 1 if op.multicast is not None else _distinct(layout) // size
    with _ordered(op, count, lowering) as order:
        by_bounds(addresses, axis, size, combine, lowering)
    return [None]
