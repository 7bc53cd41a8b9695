"""Conversions between layouts: emits the plan that the layout library makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.dots import is_operand, joined_conversions
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import llvm, nvvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import FloatType, IntegerType, Operation, Value, i1, i32
from tileiras.layout import LinearLayout
from tileiras.layout.convert import (
    Condition,
    ConditionalXor,
    NoConversion,
    Plan,
    RegisterPermutation,
    Round,
    WarpShuffle,
    plan_conversion,
)
from tileiras.layout.scratch import in_rounds
from tileiras.layout.shared import MatrixAccess, SharedAccess, SharedPlan, plan_shared
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple

from ..emit.builder import Number
from ..emit.emitter import FULL_WARP
from ..emit.function import Area, FunctionLowering
from ..emit.types import bit_width, count_of, element_of, vector_of
from ..memory.access import as_data, from_data, load_vector, store_vector
from ..tensor_core.atoms import load_matrices, moves_matrices, store_matrices


class ConvertPlan(NamedTuple):
    """One conversion: its steps and the registers of its result.  Through shared memory also its scratch area and the
    parts that it moves one after the other, each by `steps`."""

    steps: Plan
    registers: int
    area: Area | None = None
    parts: Sequence[Round] = ()

    @property
    def bytes(self) -> int:
        """The bytes that go through shared memory."""
        return len(self.parts) * self.steps.bytes if isinstance(self.steps, SharedPlan) else 0


def plan_convert(
    value: Value, source: LinearLayout, target: LinearLayout, lowering: FunctionLowering, op: Operation | None = None
) -> ConvertPlan:
    """The plan of converting a fragment from layout `source` to layout `target`, in the first scratch area of `op`, or
    the next one of the operation that is being lowered."""
    bits = max(8, bit_width(element_of(value.type)))
    steps = plan_conversion(source, target, bits, moves_matrices("register", "shared", lowering))
    if not isinstance(steps, SharedPlan):
        return ConvertPlan(steps, target.registers)
    return _through_area(value, source, target, lowering, lowering.area(op), steps)


def _through_area(
    value: Value, source: LinearLayout, target: LinearLayout, lowering: FunctionLowering, area: Area,
    whole: SharedPlan | None = None
) -> ConvertPlan:
    """The plan through a scratch area, in rounds where it is smaller than the tile; `whole`, if known, is the one in a
    single round."""
    matrices = moves_matrices("register", "shared", lowering)
    bits = max(8, bit_width(element_of(value.type)))
    rounds = in_rounds(source, target, area.scratch.rounds)
    if rounds is None:
        part = Round(tuple(range(source.registers)), (), tuple(range(target.registers)), ())
        return ConvertPlan(whole or plan_shared(source, target, bits, matrices), target.registers, area, [part])
    # Where only some threads store, they cannot do it as a warp.
    matrices = matrices and not any(part.source_conditions for part in rounds.parts)
    steps = plan_shared(rounds.source, rounds.target, bits, matrices)
    return ConvertPlan(steps, target.registers, area, rounds.parts)


def convert(value: Value, source: LinearLayout, target: LinearLayout, lowering: FunctionLowering) -> Value:
    """A fragment of layout `source` as a fragment of layout `target`."""
    return _convert(value, plan_convert(value, source, target, lowering), lowering)


def _convert(value: Value, plan: ConvertPlan, lowering: FunctionLowering) -> Value:
    steps = plan.steps
    if isinstance(steps, NoConversion):
        return value
    if isinstance(steps, RegisterPermutation):
        return lowering.emit.shuffle(value, steps.source)
    if isinstance(steps, SharedPlan):
        return _in_parts(value, plan, lowering)
    return from_data(_shuffle(as_data(value, lowering), steps, lowering), element_of(value.type), lowering)


# ---- within a warp --------------------------------------------------------------------------------------------------


def _conditional(value: Value, selects: Sequence[ConditionalXor], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    for select in selects:
        swapped = emit.shuffle(value, [r ^ select.xor for r in range(count_of(value.type))])
        value = emit.select(emit.thread_bit(select.dim, select.bit), swapped, value)
    return value


def shuffle_word(word: Value, mode: str, operand: Value, lowering: FunctionLowering) -> Value:
    """One shuffle of a scalar of any width up to 64 bits; `mode` is bfly or idx."""
    emit = lowering.emit
    type = word.type
    words = emit.pack(word, i32)
    member, clamp = emit.integer(FULL_WARP), emit.integer(31)
    parts = [
        emit.insert(nvvm.ShflOp(member, emit.extract(words, i), operand, clamp, kind=nvvm.ShflKindAttr(mode)))
        for i in range(count_of(words.type))
    ]
    return emit.unpack(emit.build(parts), type)


def _shuffle(value: Value, plan: WarpShuffle, lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    handed = _conditional(value, plan.source_selects, lowering)
    element = element_of(value.type)
    bits = plan.packed_bits(element.width)
    inside = sum(1 << b for b in bits)
    if plan.identity_lane_map:
        base = None
    else:
        base = emit.linear(plan.lane_map, plan.warp_map)
    groups, parts = [], []
    cache: dict[tuple[tuple[int, ...], int], Value] = {}
    for start in range(len(plan.registers)):
        if start & inside:
            continue
        group = [start | sum(1 << bits[i] for i in range(len(bits)) if n >> i & 1) for n in range(1 << len(bits))]
        sources = tuple(plan.registers[r] for r in group)
        xor = plan.lane_xor[start]
        result = cache.get((sources, xor))
        if result is None:
            result = emit.shuffle(handed, sources)
            if plan.moves(start):
                if base is None:
                    result = shuffle_word(result, "bfly", emit.integer(xor), lowering)
                else:
                    lane = emit.value(emit.xor(base, xor))
                    result = shuffle_word(result, "idx", lane, lowering)
            cache[sources, xor] = result
        groups.append(group)
        parts.append(result)
    got = emit.assemble(groups, parts, len(plan.registers))
    return _conditional(got, plan.result_selects, lowering)


# ---- through shared memory ------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a tile is in shared memory: `start` bytes after `base`, which is at a multiple of `alignment`.

    For a slice, `mask` is XORed into every address, in elements; `mask_bits` are the bits that it may have.
    """

    base: Value
    alignment: int
    start: Number = 0
    mask: Number = 0
    mask_bits: int = 0


def shared_addresses(
    access: SharedAccess | MatrixAccess, size: int, place: Place, lowering: FunctionLowering
) -> list[tuple[Value, int]]:
    """(pointer, bytes to add) for each access.  The thread's part is computed once; a register's part is XORed into it
    where they share bits, and added as an immediate where they do not.

    Below the place's alignment the sum of both has the bits of the thread's part, so that the XOR is one instruction
    of each access, and occupies no register between accesses.
    """
    emit = lowering.emit
    shared_bits = access.thread_bits() | place.mask_bits
    cache: dict[int, Value] = {}
    result = []

    def thread_pointer(mixed: int) -> Value:
        def make() -> Value:
            thread = emit.xor(emit.linear(access.lane_map, access.warp_map), mixed)
            return emit.gep(place.base, emit.mul(emit.xor(thread, place.mask), size))

        if place.mask_bits:
            return emit.gep(make(), place.start)

        key = ("shared address", access.lane_map, access.warp_map, mixed, size, place.base)
        return emit.gep(lowering.opaque_pointer(emit.by_thread(key, make)), place.start)

    for offset in access.offsets:
        mixed, plain = offset & shared_bits, offset & ~shared_bits
        if mixed not in cache:
            if not mixed or mixed * size >= place.alignment:
                cache[mixed] = thread_pointer(mixed)
            else:
                if 0 not in cache:
                    cache[0] = thread_pointer(0)
                cache[mixed] = emit.xor_address(cache[0], mixed * size)
        result.append((cache[mixed], plain * size))
    return result


def _read_parts(
    access: SharedAccess | MatrixAccess, element: FloatType | IntegerType, pointer: Value, offset: int,
    lowering: FunctionLowering
) -> list[Value]:
    """The result of one access for a thread, in values of equal size: the words of matrices, or a single one."""
    emit = lowering.emit
    type = vector_of(element, access.vector)
    if isinstance(access, MatrixAccess):
        type = vector_of(element, access.vector // access.words)
        words = load_matrices(emit.gep(pointer, offset), access.matrices, access.form, lowering)
        return [emit.unpack(word, type) for word in words]
    return [load_vector(lowering, pointer, offset, type)]


def read_shared(
    access: SharedAccess | MatrixAccess, element: FloatType | IntegerType, place: Place, registers: int,
    lowering: FunctionLowering
) -> Value:
    """A fragment of `registers` elements."""
    addresses = shared_addresses(access, element.width // 8, place, lowering)
    parts = [p for pointer, offset in addresses for p in _read_parts(access, element, pointer, offset, lowering)]
    size = count_of(parts[0].type)
    groups = [group[i : i + size] for group in access.registers for i in range(0, len(group), size)]
    return lowering.emit.assemble(groups, parts, registers)


class StagedFragment:
    """A tile in shared memory whose registers a thread reads on demand, so that a dot with a large depth holds a step
    of its operands at a time.  Only for uses in the block of the read, while the memory holds the tile."""

    def __init__(
        self,
        access: SharedAccess | MatrixAccess,
        place: Place,
        element: FloatType | IntegerType,
        lowering: FunctionLowering,
    ) -> None:
        self._access = access
        self._element = element
        self._lowering = lowering
        self._places = shared_addresses(access, element.width // 8, place, lowering)
        self._where = {
            register: (number, position)
            for number, group in enumerate(access.registers)
            for position, register in enumerate(group)
        }
        self._read: dict[int, list[Value]] = {}

    def take(self, registers: Sequence[int]) -> Value:
        """The elements of these registers as one value."""
        emit = self._lowering.emit
        places = [self._where[register] for register in registers]
        first = places[0][0]
        if any(number != first for number, _ in places):
            return emit.build([self.take([register]) for register in registers])
        parts = self._parts(first)
        size = count_of(parts[0].type)
        of_part, *others = {position // size for _, position in places}
        if others:
            return emit.shuffle(emit.concat(parts), [position for _, position in places])
        return emit.shuffle(parts[of_part], [position % size for _, position in places])

    def _parts(self, number: int) -> list[Value]:
        parts = self._read.get(number)
        if parts is None:
            pointer, offset = self._places[number]
            parts = self._read[number] = _read_parts(self._access, self._element, pointer, offset, self._lowering)
        return parts


class _Exchange:
    """One conversion through shared memory, in two halves with a barrier between them."""

    def __init__(
        self,
        value: Value,
        plan: ConvertPlan,
        registers: int,
        lowering: FunctionLowering,
        conditions: Sequence[Condition] = (),
    ) -> None:
        """`conditions`: select the threads that have elements to store."""
        self._conditions = conditions
        self._lowering = lowering
        assert isinstance(plan.steps, SharedPlan) and plan.area is not None
        self._plan = plan.steps
        self._registers = registers
        self._held = element_of(value.type)
        self._data = as_data(value, lowering)
        self._area = plan.area
        self._place = Place(plan.area.base, plan.area.alignment)

    def store(self, number: int = 0) -> None:
        """The stores of round `number`."""
        lowering, access = self._lowering, self._plan.store
        emit = lowering.emit
        lowering.before_stores(self._area, number)
        size = element_of(self._data.type).width // 8
        addresses = shared_addresses(access, size, self._place, lowering)
        if isinstance(access, MatrixAccess):
            for group, (pointer, offset) in zip(access.registers, addresses):
                words = emit.pack(emit.shuffle(self._data, group), i32)
                parts = [emit.extract(words, i) for i in range(access.words)]
                store_matrices(emit.gep(pointer, offset), parts, access.form.transposed, lowering)
            return
        holder = elected_of(access, self._conditions, lowering)
        predicate = emit.both(holder, holds(self._conditions, lowering))
        for group, (pointer, offset) in zip(access.registers, addresses):
            store_vector(lowering, pointer, offset, emit.shuffle(self._data, group), predicate)

    def load(self) -> Value:
        lowering = self._lowering
        element = element_of(self._data.type)
        whole = read_shared(self._plan.load, element, self._place, self._registers, lowering)
        return from_data(whole, self._held, lowering)

    def steps(self) -> StagedFragment:
        """Instead of load(), for an immediately following dot."""
        element = element_of(self._data.type)
        return StagedFragment(self._plan.load, self._place, element, self._lowering)


def elected_of(
    access: SharedAccess, conditions: Sequence[Condition], lowering: FunctionLowering
) -> Value | None:
    """Whether the thread is the one of those with copies that stores; None when there are no copies.  A thread bit with
    a condition selects parts of the tile, not copies."""
    masks = {"lane": access.lane_mask, "warp": access.warp_mask}
    for condition in conditions:
        masks[condition.dim] &= ~(1 << condition.bit)
    return lowering.emit.thread_is_elected(masks["lane"], masks["warp"])


def holds(conditions: Sequence[Condition], lowering: FunctionLowering) -> Value | None:
    """Whether all conditions hold in the thread; None if the list is empty."""
    emit = lowering.emit

    def make(condition: Condition) -> Value:
        bit = emit.thread_bit(condition.dim, condition.bit)
        return bit if condition.value else emit.insert(llvm.XOrOp(bit, emit.integer(1, i1)))

    result = None
    for condition in conditions:
        result = emit.both(result, emit.by_thread(("holds", condition), lambda condition=condition: make(condition)))
    return result


def spread(value: Value, layout: LinearLayout, lowering: FunctionLowering) -> Value:
    """Broadcast each element from the one replica that stores it, through scratch memory."""
    return _in_parts(value, _through_area(value, layout, layout, lowering, lowering.area()), lowering)


def _in_parts(value: Value, plan: ConvertPlan, lowering: FunctionLowering) -> Value:
    """A conversion through shared memory, part by part.  Only one replica stores; the loads broadcast it."""
    emit = lowering.emit
    pieces: dict[tuple[int, ...], Value] = {}
    for number, part in enumerate(plan.parts):
        exchange = _Exchange(emit.shuffle(value, part.source), plan, len(part.target), lowering, part.source_conditions)
        exchange.store(number)
        lowering.before_loads(plan.area)
        loaded = exchange.load()
        here, before = holds(part.target_conditions, lowering), pieces.get(part.target)
        pieces[part.target] = loaded if here is None or before is None else emit.select(here, loaded, before)
    return emit.assemble(list(pieces), list(pieces.values()), plan.registers)


def convert_together(
    values: Sequence[Value], source: LinearLayout, target: LinearLayout, lowering: FunctionLowering
) -> list[Value]:
    """Fragments of layout `source` as fragments of layout `target`, all through shared memory with one barrier."""
    exchanges = []
    for value in values:
        steps = plan_shared(source, target, bit_width(element_of(value.type)))
        plan = ConvertPlan(steps, target.registers, lowering.area())
        exchanges.append(_Exchange(value, plan, target.registers, lowering))
        exchanges[-1].store()
    lowering.before_loads(plan.area)
    return [exchange.load() for exchange in exchanges]


def _plan_of(op: tileas.ConvertLayoutOp, lowering: FunctionLowering) -> ConvertPlan:
    """The plan of an operation; emits the remark with its cost."""
    source, target = lowering.layout(op.operand), lowering.layout(op.result)
    plan = plan_convert(lowering.value(op.operand), source, target, lowering, op)
    _remark(op, plan, lowering)
    return plan


def _remark(op: tileas.ConvertLayoutOp, plan: ConvertPlan, lowering: FunctionLowering) -> None:
    """Emit a remark with the cost of a conversion that is more than a renaming of registers."""
    if not lowering.engine.remarks or not isinstance(plan.steps, (SharedPlan, WarpShuffle)):
        return
    cause = _wanted_by(op)
    if isinstance(plan.steps, WarpShuffle):
        reason = Reason("memory.conversion-in-warp", cause=cause)
    else:
        reason = Reason("memory.conversion", bytes=plan.bytes, cause=cause)
    arguments = {"Shape": list(op.result.type.shape)}
    lowering.engine.emit(Remark(reason, op.location, arguments=arguments, function=lowering.func.sym_name.value))


def _wanted_by(op: tileas.ConvertLayoutOp) -> Reason | None:
    """The use that requires the conversion, for the remark."""
    users = [user for user in op.result.users if user is not op]
    for user in users:
        place = user.location.resolve()
        if place is not None and place.line:
            return Reason("memory.conversion-user", op=user.name, line=place.line)
    return None


def convert_layout(op: tileas.ConvertLayoutOp, args: Sequence[Value], lowering: FunctionLowering) -> Value | list[Any]:
    """A conversion, and with it those that follow and share its barrier."""
    plan = _plan_of(op, lowering)
    if len(plan.parts) != 1:
        return _convert(args[0], plan, lowering)
    exchanges: list[tuple[Any, _Exchange]] = []
    group = [op, *joined_conversions(op)]
    for each in group:
        if each is not op:
            plan = _plan_of(each, lowering)
        exchange = _Exchange(lowering.value(each.operand), plan, plan.registers, lowering)
        with lowering.rematerialized():
            exchange.store()
        exchanges.append((each, exchange))
    lowering.before_loads(plan.area)
    current = group[-1].next
    for follower, exchange in exchanges:
        # Where the dot that takes the operands comes next, it reads them step by step.
        next_is_dot = (
            current is not None and follower.result.users == [current] and is_operand(current, follower.result)
        )
        with lowering.rematerialized():
            lowering.prepared[follower] = exchange.steps() if next_is_dot else exchange.load()
    return [lowering.prepared.pop(op)]


__all__ = [
    "Place",
    "StagedFragment",
    "convert",
    "convert_layout",
    "convert_together",
    "read_shared",
    "shared_addresses",
    "shuffle_word",
    "spread",
]
