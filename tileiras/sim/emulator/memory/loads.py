"""Loads, stores and address conversions (PTX ISA, "ld", "st", "cvta", "isspacep", "mapa"), and their operands:
addresses, spaces, orders and cache hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..order.memory_order import SCOPES, SYSTEM, WEAK, Order
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Address, Group, Register, Sink, Symbol, Variable
from ..ptx.types import B8, PRED, U32, U64, PtxType
from ..ptx.verbs import Verb, verbs
from .accesses import LOCAL_WINDOW, RANK, RANK_BIT, SHARED_WINDOW, WINDOW_END, gather, read, resolve

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_CACHE_OPERATORS = (
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "unified",
)
_SPACES = (
    "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry", "param::func",
)  # fmt: skip
_HINTED = "L2::cache_hint"


# -- operands --------------------------------------------------------------------------------------------------------


def address_slot(decoder: Decoder, operand: Address, space: str) -> int:
    """A slot with the 64-bit address of `[base + offset]` in ``space``."""
    if not isinstance(operand, Address):
        raise decoder.error("expected an address in brackets")
    if operand.base is None:
        return decoder.constant(operand.offset, U64)
    if isinstance(operand.base, Symbol):
        symbol = Symbol(operand.base.name, operand.base.target, operand.offset)
        slot = decoder.address_of(symbol)
        variable = symbol.target
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(variable.space)
        if space == "generic" and window is not None:
            windowed, offset = decoder.temporary(U64), np.uint64(window)
            decoder.emit(lambda group: group.R.__setitem__(windowed, group.R[slot] + offset))
            return windowed
        return slot
    register = operand.base
    if not isinstance(register, Register):
        raise decoder.unsupported("an address of this form")
    base = decoder.src(register, U64) if register.type.bits == 64 else _widen(decoder, register)
    if not operand.offset:
        return base
    slot, offset = decoder.temporary(U64), np.array([operand.offset & (1 << 64) - 1], np.uint64)
    decoder.emit(lambda group: group.R.__setitem__(slot, group.R[base] + offset))
    return slot


def _widen(decoder: Decoder, register: Register) -> int:
    base, slot = decoder.src(register, U32), decoder.temporary(U64)
    decoder.emit(lambda group: group.R.__setitem__(slot, group.R[base].astype(np.uint64)))
    return slot


def note_granule(decoder: Decoder, space: str, size: int) -> None:
    """Memory is checked for races in units of the smallest access."""
    program = decoder.program
    if space in ("shared", "generic"):
        program.granule = min(program.granule, size)
    if space in ("global", "generic"):
        program.global_granule = min(program.global_granule, size)


def take_space(modifiers: Modifiers) -> str:
    """The named state space, `generic` by default."""
    return _plain(modifiers.take(*_SPACES))


def _plain(space: str | None) -> str:
    return space.partition("::")[0] if space else "generic"


_SEMANTICS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "nc")


def take_order(modifiers: Modifiers, default: Order = WEAK) -> Order:
    """The named order and scope; values are sequentially consistent in the emulator, and races are determined by the
    names.

    `.volatile` is `.relaxed.sys` (PTX ISA, "ld"), and `.mmio` has an explicit order.
    """
    modifiers.take("mmio")
    semantics = modifiers.take(*_SEMANTICS)
    scope = modifiers.take(*SCOPES)
    if semantics == "volatile":
        return Order("relaxed", SYSTEM)
    if semantics == "nc":
        modifiers.take("weak")
        return Order("nc", -1)
    if semantics == "weak":
        return Order("nc", -1) if modifiers.take("nc") else WEAK
    if semantics is None and scope is None:
        return default
    return Order(semantics or default.semantics, SCOPES[scope] if scope is not None else default.scope)


def take_hints(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """Cache operators, which have no effect without caches."""
    while modifiers.take(*_CACHE_OPERATORS):
        continue
    if modifiers.take(_HINTED):
        item = item.operands[-1]
        decoder.src(item, U64)


_WIDE: dict[int, np.dtype] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
    32: np.dtype("V32"),
}


class _Form(NamedTuple):
    order: Order
    space: str
    count: int
    type: PtxType
    operands: list
    """Those of the access, without a cache hint."""


def _form(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> _Form:
    """The parts that loads and stores share."""
    hinted = _HINTED in modifiers.names
    take_hints(decoder, item, modifiers)
    order = take_order(modifiers)
    space = take_space(modifiers)
    vector = modifiers.take("v2", "v4", "v8")
    count = int(vector[1:]) if vector else 1
    types = modifiers.types()
    if len(types) != 1 or len(item.operands) != (3 if hinted else 2) or types[0].bits == 128 and count > 1:
        raise decoder.unsupported()
    return _Form(order, space, count, types[0] if types[0] is not PRED else B8, item.operands[:2])


def _parts(decoder: Decoder, operand: Group | Register | Sink, form: _Form, kind: str) -> list:
    parts = operand.items if isinstance(operand, Group) and form.count > 1 else [operand]
    if len(parts) != form.count:
        raise decoder.error(f"expected {form.count} {kind} registers")
    return parts


@instruction("ld", "ldu")
def decode_ld(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    form = _form(decoder, item, modifiers)
    order, space, count, type_, (d, source) = form
    parts = _parts(decoder, d, form, "destination")
    if space == "param" and _param_load(decoder, parts, type_, source):
        return
    address = address_slot(decoder, source, space)
    memory_space = "global" if space in ("const", "param") else space
    wide = _WIDE[type_.bytes * count]
    note_granule(decoder, memory_space, wide.itemsize)
    slots = [_landing(decoder, part, type_) for part in parts]
    is_idle = decoder.is_idle

    def step(group: WarpGroup) -> None:
        addresses = group.R[address]
        mask = group.mask
        if group.launch.recorder is not None:
            threads = group.active()
            every = group.full(address)[threads]
            group.launch.recorder.access(group, item, memory_space, every, wide.itemsize, threads, False)
        uniform = addresses.size == 1 and memory_space in ("global", "generic")
        if uniform and WINDOW_END <= int(addresses[0]):
            # One address for all threads: the value is uniform as well.
            accesses = resolve(group, item, "global", addresses, wide, False, None, wide.itemsize)
            if is_idle:
                return
            read(group, item, accesses, order)
            loaded = gather(accesses, 1, wide)
        else:
            threads = None
            if mask is not None:
                threads = np.flatnonzero(mask)
                addresses = np.broadcast_to(addresses, mask.shape)[threads]
            elif addresses.size == 1:
                addresses = np.broadcast_to(addresses, (group.n,))
            accesses = resolve(group, item, memory_space, addresses, wide, False, threads, wide.itemsize)
            if is_idle:
                return
            read(group, item, accesses, order)
            loaded = gather(accesses, group.n, wide)
        if count == 1:
            for slot in slots:
                slot(group, loaded.view(type_.storage))
        else:
            pieces = np.ascontiguousarray(loaded.view(type_.storage).reshape(-1, count).T)
            for slot, piece in zip(slots, pieces):
                slot(group, piece)

    decoder.emit(step)


def _landing(decoder: Decoder, part: Register, type_: PtxType):
    """A function that stores a loaded piece in its destination, extended to the register's width."""
    if isinstance(part, Sink):
        return lambda group, value: None
    if not isinstance(part, Register):
        raise decoder.error("the destination is not a register")
    slot, have = decoder.frame.base + part.index, part.type
    if have.bits == type_.bits:
        return lambda group, value: group.write(slot, value)
    if have.bits < type_.bits or have is PRED:
        raise decoder.error(f"a .{have.name} destination where .{type_.name} is needed")
    middle = np.dtype(f"i{have.bytes}") if type_.signed else have.storage
    return lambda group, value: group.write(slot, value.view(type_.value).astype(middle).view(have.storage))


def _param_load(decoder: Decoder, parts: list, type_: PtxType, source: Address) -> bool:
    """Loads of named parameters, which need no memory; False for an address computed at run time."""
    if not isinstance(source, Address) or not isinstance(source.base, Symbol):
        return False
    variable = source.base.target
    if not isinstance(variable, Variable) or variable.space != "param":
        raise decoder.error(f"'{source.base.name}' is not a parameter")
    buffer = decoder.param_slot(variable)
    for number, part in enumerate(parts):
        offset = source.offset + number * type_.bytes
        if offset < 0 or offset + type_.bytes > variable.size:
            raise decoder.error(f"byte {offset} is outside parameter {variable.name} of {variable.size} bytes")
        if buffer is None:
            slot = decoder.temporary(type_)
            at = decoder.program.parameter_offsets[variable.name] + offset
            decoder.program.parameters.append((slot, at, type_.storage))
            decoder.put(part, type_, lambda R, slot=slot: R[slot], raw=True)
        else:

            def compute(R: Sequence[np.ndarray], offset: int = offset):
                return np.ascontiguousarray(R[buffer][:, offset : offset + type_.bytes]).view(type_.storage)[:, 0]

            decoder.put(part, type_, compute, raw=True)
    return True


@instruction("st", "multimem.st")
def decode_st(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    form = _form(decoder, item, modifiers)
    order, space, count, type_, (target, value) = form
    parts = _parts(decoder, value, form, "source")
    slots = [decoder.src(part, type_, wider=True) for part in parts]
    if space == "param":
        _param_store(decoder, target, slots, type_)
        return
    if space == "const":
        raise decoder.error("a store to constant memory")
    address = address_slot(decoder, target, space)
    wide = _WIDE[type_.bytes * count]
    note_granule(decoder, space, wide.itemsize)

    def step(group: WarpGroup) -> None:
        R, mask, n = group.R, group.mask, group.n
        addresses = R[address]
        threads = None if mask is None else np.flatnonzero(mask)
        addresses = np.broadcast_to(addresses, (n,)) if threads is None else np.broadcast_to(addresses, (n,))[threads]
        if group.launch.recorder is not None:
            group.launch.recorder.access(group, item, space, addresses, wide.itemsize, group.active(), True)
        if count == 1:
            values = np.broadcast_to(R[slots[0]].view(wide), (n,))
        else:
            block = np.empty((n, count), type_.storage)
            for number, slot in enumerate(slots):
                block[:, number] = R[slot]
            values = block.view(wide)[:, 0]
        for access in resolve(group, item, space, addresses, wide, True, threads, wide.itemsize):
            access.store(group, item, values, order)

    decoder.emit(step)


def _param_store(decoder: Decoder, target: Address, slots: list[int], type_: PtxType) -> None:
    symbol = target.base if isinstance(target, Address) else None
    variable = symbol.target if isinstance(symbol, Symbol) else None
    buffer = decoder.param_slot(variable) if isinstance(variable, Variable) else None
    if buffer is None:
        raise decoder.unsupported("a parameter store of this form")
    for number, slot in enumerate(slots):
        offset = target.offset + number * type_.bytes
        if offset < 0 or offset + type_.bytes > variable.size:
            raise decoder.error(f"byte {offset} is outside parameter {variable.name} of {variable.size} bytes")
        decoder.emit(lambda group, slot=slot, offset=offset: group.write_buffer(buffer, offset, group.R[slot]))


# -- addresses -------------------------------------------------------------------------------------------------------


@instruction("cvta")
def decode_cvta(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    to = modifiers.take("to")
    space = take_space(modifiers)
    (type_,) = modifiers.types()
    d, a = decoder.operands(2)
    x = decoder.src(a, U64)
    window = np.uint64({"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0))
    if type_.bits != 64:
        raise decoder.unsupported("32-bit generic addresses")
    if not window:
        decoder.put(d, U64, lambda R: R[x], raw=True)
    elif to:
        decoder.put(d, U64, lambda R: R[x] - window, raw=True)
    else:
        decoder.put(d, U64, lambda R: R[x] + window, raw=True)


def _in_space(space: str | None):
    """Whether an address is in the window of a state space."""
    windows = {"shared": (SHARED_WINDOW, LOCAL_WINDOW), "local": (LOCAL_WINDOW, WINDOW_END)}
    low, high = windows.get(_plain(space), (WINDOW_END, 1 << 63))
    return lambda address: (address >= np.uint64(low)) & (address < np.uint64(high))


def _in_block(type_: PtxType, space: str | None):
    """The address of the same variable in the shared memory of another block of the cluster."""
    window = type_.storage.type(SHARED_WINDOW if _plain(space) == "generic" else 0)
    low, shift = type_.storage.type(RANK - 1), type_.storage.type(RANK_BIT)
    return lambda address, rank: window | rank.astype(type_.storage) << shift | address & low


def _rank(type_: PtxType, space: str | None):
    shift, low = type_.storage.type(RANK_BIT), type_.storage.type(0xFF)
    return lambda address: (address >> shift & low).astype(np.uint32)


_SPACE = f"{{{','.join(_SPACES)}}}"
verbs(
    Verb(f"isspacep.{_SPACE}", "pred u64", make=_in_space),
    Verb(f"mapa.{_SPACE}.T", "T T u32", make=_in_block),
    Verb(f"getctarank.{_SPACE}.T", "u32 T", make=_rank),
)
