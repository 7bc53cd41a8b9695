"""Atomic operations (PTX ISA, "atom", "red").

Threads of a group with one address take turns, in an order drawn from the launch's seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arithmetic.floating import Float, packed
from ..order.memory_order import GPU, Order
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group, Sink
from ..ptx.types import TYPES, PtxType
from .accesses import Access, resolve
from .loads import address_slot, decode_ld, note_granule, take_hints, take_order, take_space

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

#: PTX ISA, "atom": without an order `.relaxed`, without a scope `.gpu`.
RELAXED = Order("relaxed", GPU)

_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


def operation_of(decoder: Decoder, name: str, type_: PtxType, flush: bool = False):
    """(old, b, c) -> new, on bit patterns; ``flush`` subnormal operands and results."""
    if name == "exch":
        return lambda old, b, c: b
    if name == "cas":
        return lambda old, b, c: np.where(old == b, c, old)
    if type_.kind in ("float", "packed"):
        unit = Float(type_.name.removesuffix("x2"), ftz=flush)
        compute = {"add": unit.add, "min": unit.minimum(False, False), "max": unit.minimum(False, True)}.get(name)
        if compute is None:
            raise decoder.unsupported()
        if type_.kind == "packed":
            compute = packed(compute, TYPES[type_.name[:-2]].storage, type_.storage)
        return lambda old, b, c: compute(old, b)
    value, storage = type_.value, type_.storage
    one, zero = storage.type(1), storage.type(0)
    table = {
        "add": lambda old, b, c: old + b,
        "min": lambda old, b, c: np.minimum(old.view(value), b.view(value)).view(storage),
        "max": lambda old, b, c: np.maximum(old.view(value), b.view(value)).view(storage),
        "inc": lambda old, b, c: np.where(old >= b, zero, old + one),
        "dec": lambda old, b, c: np.where((old == 0) | (old > b), b, old - one),
        "and": lambda old, b, c: old & b,
        "or": lambda old, b, c: old | b,
        "xor": lambda old, b, c: old ^ b,
    }
    return table[name]


def _turns(index: np.ndarray, random) -> list[np.ndarray]:
    """Positions split into rounds with distinct indices."""
    order = np.arange(index.size)
    if random is not None:
        order = np.random.default_rng(random.getrandbits(32)).permutation(index.size)
    by_index = order[np.argsort(index[order], kind="stable")]
    ordered = index[by_index]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if starts.size == index.size:
        return [by_index]
    lengths = np.diff(np.r_[starts, index.size])
    return [by_index[starts[lengths > turn] + turn] for turn in range(int(lengths.max()))]


def perform(access: Access, turns: list[np.ndarray], compute, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    """Apply ``compute`` at every address of ``access`` in turn; returns the previous values, in the access's order."""
    index, data = access.index, access.data
    array = np.empty(index.size, data.dtype)
    for turn in turns:
        at = index[turn]
        old = data[at]
        array[turn] = old
        data[at] = compute(old, b[turn], None if c is None else c[turn])
    return array


def sum_integers(access: Access, b: np.ndarray) -> np.ndarray:
    """`add` of integers: all turns at once, through prefix sums."""
    index, data = access.index, access.data
    order = np.argsort(index, kind="stable")
    at, terms = index[order], b[order]
    sums = np.cumsum(terms, dtype=terms.dtype)
    starts = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
    before = sums - terms
    lengths = np.diff(np.r_[starts, at.size])
    before = before - np.repeat(before[starts], lengths)
    old = data[at] + before
    ends = starts + lengths - 1
    data[at[ends]] = old[ends] + terms[ends]
    array = np.empty_like(old)
    array[order] = old
    return array


@instruction("atom", "red", "multimem.red")
def decode_atom(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    hinted = "L2::cache_hint" in modifiers.names
    take_hints(decoder, item, modifiers)
    order = take_order(modifiers, RELAXED)
    modifiers.take("noftz")
    space = take_space(modifiers)
    name = modifiers.take(*_OPERATIONS)
    vector = modifiers.take("v2", "v4", "v8")
    types = modifiers.types()
    if name is None or len(types) != 1 or types[0].bits == 128:
        raise decoder.unsupported()
    type_ = types[0]
    operands = list(item.operands[: len(item.operands) - hinted])
    d = operands.pop(0) if item.opcode == "atom" else Sink()  # red and multimem.red have no result
    if len(operands) != (3 if name == "cas" else 2):
        raise decoder.error("the number of operands does not fit the operation")
    count = int(vector[1:]) if vector else 1
    sources = operands[1].items if isinstance(operands[1], Group) else [operands[1]]
    targets = d.items if isinstance(d, Group) else [d] * count
    if len(sources) != count or len(targets) != count:
        raise decoder.error(f"expected {count} registers")
    b_slots = [decoder.src(each, type_) for each in sources]
    c_slot = decoder.src(operands[2], type_) if name == "cas" else None
    slots = [decoder.dst(each, type_) for each in targets]
    address = address_slot(decoder, operands[0], space)
    note_granule(decoder, space, type_.bytes)
    in_shared = in_global = operation_of(decoder, name, type_)
    if name == "add" and type_.name == "f32":
        # PTX ISA, atom and red: f32 sums in global memory flush subnormal numbers to zeros of their sign, those in
        # shared memory keep them; f16 and bf16 keep them everywhere (.noftz).
        in_global = operation_of(decoder, name, type_, flush=True)
    prefix = name == "add" and type_.is_integer
    size = type_.bytes

    def step(group: WarpGroup) -> None:
        threads = group.active()
        addresses = group.full(address)[threads]
        if group.launch.recorder is not None:
            group.launch.recorder.access(group, item, space, addresses, size * count, threads, True, atomic=True)
        c = None if c_slot is None else group.full(c_slot)
        for number, (b_slot, slot) in enumerate(zip(b_slots, slots)):
            alignment = size * count if not number else size
            b = group.full(b_slot)
            shifted_addresses = addresses + np.uint64(number * size)
            result = np.zeros(group.n, type_.storage)
            for access in resolve(group, item, space, shifted_addresses, type_.storage, True, threads, alignment):
                where = access.threads
                turns = [] if prefix else _turns(access.index, group.launch.random)
                if group.launch.races is not None:
                    in_turn = np.concatenate(turns) if turns else np.arange(access.index.size)
                    group.launch.races.update(group, item, access, order, in_turn)
                before = None if group.launch.watch is None else access.data[access.index]
                if prefix:
                    previous = sum_integers(access, b[where])
                else:
                    compute = in_shared if access.shared else in_global
                    previous = perform(access, turns, compute, b[where], None if c is None else c[where])
                if before is not None:
                    group.launch.watch.after_update(access, before, previous)
                result[where] = previous
            if slot is not None:
                group.write(slot, result)

    decoder.emit(step)


@instruction("multimem.ld_reduce")
def decode_ld_reduce(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """A multicast address represents a copy on every device of a team (PTX ISA, "multimem"); in the emulator it is
    the address of the only copy, and the access is an ordinary one."""
    modifiers.take("acc::f32", "acc::f16")
    if modifiers.take("add", "min", "max", "and", "or", "xor") is None:
        raise decoder.error("multimem.ld_reduce does not say how copies are combined")
    decode_ld(decoder, item, modifiers)
