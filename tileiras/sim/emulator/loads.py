"""Loads, stores and address conversions (PTX ISA, "ld", "st", "cvta", "isspacep", "mapa").

An access resolves each thread's address to bytes of a backing array: the global memory of the launch, the shared
memory of the thread's block, the thread's local memory. Every access is checked against the bounds of what it lies in
and against its natural alignment.
"""

from __future__ import annotations

import numpy as np

from ..memory import MemoryAccessError
from .happens_before import SCOPES, SYSTEM, WEAK, Order
from .program import Decoder, Instruction, Modifiers, instruction
from .ptx_module import Address, Group, Register, Sink, Special, Symbol, Variable
from .types import B8, PRED, U32, U64, PtxType

#: Windows of the generic address space (PTX ISA, "Generic Addressing"); global, const and param are at their own
#: addresses, which are above.
SHARED_WINDOW = 1 << 32
LOCAL_WINDOW = 1 << 34
WINDOW_END = 1 << 36

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
_HINTED = "L2::cache_hint"


class Access:
    """Resolved addresses: ``data`` seen as elements of the access's size, an element index per thread of ``threads``
    (None: all of the group), and what it is part of: the batch's ``shared`` memory or, with ``address`` that of its
    first element, an ``allocation`` of global memory."""

    __slots__ = ("address", "allocation", "data", "index", "shared", "threads")

    def __init__(
        self, data: np.ndarray, index: np.ndarray, threads: np.ndarray | None, shared: bool = False, allocation=None,
        address: int = 0,
    ) -> None:  # fmt: skip
        self.data = data
        self.index = index
        self.threads = threads
        self.shared = shared
        self.allocation = allocation
        self.address = address

    def part(self, chosen: np.ndarray) -> Access:
        """The elements that ``chosen`` says of an access by given threads."""
        return Access(
            self.data, self.index[chosen], self.threads[chosen], self.shared, self.allocation, self.address
        )

    def store(self, group, item: Instruction, values: np.ndarray, order: Order = WEAK) -> None:
        """Write ``values``, one per thread of the group."""
        if self.threads is not None:
            values = values[self.threads]
        races = group.launch.races
        if races is not None:
            races.write(group, item, self, values, order)
        else:
            self.data[self.index] = values


def _first(bad: np.ndarray, threads: np.ndarray | None) -> tuple[int, int]:
    """(position, thread) of the first true element."""
    position = int(bad.argmax())
    return position, position if threads is None else int(threads[position])


def resolve(
    group,
    item: Instruction,
    space: str,
    addresses: np.ndarray,
    dtype: np.dtype,
    write: bool,
    threads: np.ndarray | None,
    alignment: int,
) -> list[Access]:
    """Where ``addresses`` (uint64, one per thread of ``threads``, or per thread of the group) lie.

    Raises EmulationError for the first thread whose access is outside memory or misaligned, or reads shared memory
    that was never written.
    """
    size = dtype.itemsize
    if alignment > 1 and (bad := (addresses & np.uint64(alignment - 1)) != 0).any():
        position, thread = _first(bad, threads)
        address = int(addresses[position])
        group.fault(f"address {address:#x} is not aligned to {alignment} bytes", item, thread, address)
    if space == "generic":
        low = addresses < WINDOW_END
        if not low.any():
            return resolve(group, item, "global", addresses, dtype, write, threads, 1)
        return _resolve_generic(group, item, addresses, dtype, write, threads, low)
    if space == "shared":
        access = _resolve_shared(group, item, addresses, dtype, write, threads)
        if group.launch.banks is not None:
            lanes = np.arange(group.n) if threads is None else threads
            group.launch.banks.count(item.line, access.index * size, lanes, size)
        return [access]
    if space == "local":
        stride = group.launch.local_stride
        bad = addresses > stride - size if stride >= size else np.ones(addresses.shape, bool)
        if bad.any():
            position, thread = _first(bad, threads)
            address = int(addresses[position])
            group.fault(
                f"local address {address:#x} is outside the {stride} bytes of the thread", item, thread, address
            )
        base = (np.arange(group.n) if threads is None else threads) * stride
        return [Access(group.local.view(dtype), (base + addresses.astype(np.int64)) // size, threads)]
    return _resolve_global(group, item, addresses, dtype, write, threads)


def _resolve_generic(group, item, addresses, dtype, write, threads, low) -> list[Access]:
    accesses = []
    numbers = np.arange(group.n) if threads is None else threads
    shared = low & (addresses >= SHARED_WINDOW) & (addresses < LOCAL_WINDOW)
    local = low & (addresses >= LOCAL_WINDOW)
    parts = (("global", ~(shared | local), 0), ("shared", shared, SHARED_WINDOW), ("local", local, LOCAL_WINDOW))
    for space, chosen, base in parts:
        if chosen.any():
            where = numbers[chosen] if addresses.size > 1 or threads is not None else numbers
            part = addresses[chosen] - np.uint64(base)
            if part.size == 1 and where.size > 1:
                part = np.broadcast_to(part, where.shape)
            accesses += resolve(group, item, space, part, dtype, write, where, 1)
    return accesses


def _resolve_shared(group, item, addresses, dtype, write, threads) -> Access:
    batch, size = group.batch, dtype.itemsize
    limit = group.launch.shared_bytes
    offsets = addresses
    base = group.shared_base if threads is None else group.shared_base[threads]
    if (addresses >> np.uint64(24)).any():
        # Addresses that mapa gave: the block's rank in the cluster, plus one, above bit 24.
        offsets = addresses & np.uint64(0xFFFFFF)
        rank = (addresses >> np.uint64(24)).astype(np.int64) - 1
        blocks = group.cta if threads is None else group.cta[threads]
        members = group.launch.cluster[0] * group.launch.cluster[1] * group.launch.cluster[2]
        bad = (rank >= members) | (rank < -1)
        if bad.any():
            position, thread = _first(np.broadcast_to(bad, base.shape), threads)
            group.fault("a shared::cluster address outside the cluster", item, thread, int(addresses.flat[0]))
        base = np.where(rank >= 0, (blocks // members * members + rank) * batch.shared_stride, base)
    bad = (offsets > limit - size) | (offsets < 1024)
    if bad.any():
        position, thread = _first(np.broadcast_to(bad, base.shape), threads)
        address = int(np.broadcast_to(addresses, base.shape)[position])
        group.fault(
            f"shared address {address:#x} ({size} bytes) is outside the block's shared memory, [0x400, {limit:#x})",
            item,
            thread,
            address,
        )
    index = (base + offsets.astype(np.int64)) // size
    written = batch.shared_written
    if written is not None:
        if write:
            written.reshape(-1, size)[index] = True
        elif not (known := written.reshape(-1, size)[index].all(1)).all():
            position, thread = _first(~known, threads)
            address = int(np.broadcast_to(addresses, base.shape)[position])
            group.fault(f"shared address {address:#x} is read before it is written", item, thread, address)
    return Access(batch.shared.view(dtype), index, threads, shared=True)


def _resolve_global(group, item, addresses, dtype, write, threads) -> list[Access]:
    memory, size = group.launch.memory, dtype.itemsize
    signed = addresses.view(np.int64)
    low, high = int(signed.min()), int(signed.max())
    found = memory.find(low, size)
    if found is not None and high + size <= found.address + found.size and (found.writable or not write):
        shift = low % size
        if (found.address % size, shift) == (0, 0):
            data = found.data[: found.size // size * size].view(dtype)
            return [Access(data, (signed - found.address) // size, threads, False, found, found.address)]
    accesses = []
    try:
        for view, offsets, where in memory.accesses(signed, dtype, None, 1, write=write):
            chosen = (np.arange(group.n) if threads is None else threads)[where]
            first = int(signed.reshape(-1)[where][0])
            place = (memory.find(first, size), first - int(offsets[0]) * size)
            if addresses.size == 1:
                return [Access(view, offsets, threads, False, *place)]
            accesses.append(Access(view, offsets, chosen, False, *place))
    except MemoryAccessError as error:
        thread = error.index if threads is None else int(threads[error.index])
        if addresses.size == 1 and threads is None:
            thread = int(group.active()[0])
        group.fault(error.reason, item, thread, error.address)
    return accesses


# -- operands --------------------------------------------------------------------------------------------------------


def address_slot(decoder: Decoder, operand, space: str) -> int:
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
            moved, offset = decoder.temporary(U64), np.uint64(window)
            decoder.emit(lambda group: group.R.__setitem__(moved, group.R[slot] + offset))
            return moved
        return slot
    register = operand.base
    if not isinstance(register, Register):
        raise decoder.unsupported("an address of this form")
    base = decoder.src(register, U64) if register.type.bits == 64 else _widened(decoder, register)
    if not operand.offset:
        return base
    slot, offset = decoder.temporary(U64), np.array([operand.offset & (1 << 64) - 1], np.uint64)
    decoder.emit(lambda group: group.R.__setitem__(slot, group.R[base] + offset))
    return slot


def _widened(decoder: Decoder, register: Register) -> int:
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
    """The state space named, `generic` when none is."""
    space = modifiers.take(
        "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry", "param::func"
    )
    return space.partition("::")[0] if space else "generic"


_SEMANTICS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "nc")


def take_order(modifiers: Modifiers, default: Order = WEAK) -> Order:
    """The order and scope named; values are sequentially consistent here, and races judged by what is named.

    `.volatile` is `.relaxed.sys` (PTX ISA, "ld"), and `.mmio` comes with an order of its own.
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


def read(group, item: Instruction, accesses: list[Access], order: Order = WEAK, whole_warp: bool = False) -> None:
    """Have loads checked for races before their values are used."""
    races = group.launch.races
    if races is not None:
        for access in accesses:
            races.read(group, item, access, order, whole_warp)


def take_hints(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """Cache operators, which have nothing to do where there are no caches."""
    while modifiers.take(*_CACHE_OPERATORS):
        continue
    if modifiers.take(_HINTED):
        item = item.operands[-1]
        decoder.src(item, U64)


def gather(accesses: list[Access], n: int, dtype: np.dtype) -> np.ndarray:
    """Loaded elements: one per thread of the group, or a single one for a uniform address."""
    if len(accesses) == 1 and accesses[0].threads is None:
        return accesses[0].data[accesses[0].index]
    result = np.zeros(n, dtype)
    for access in accesses:
        result[access.threads] = access.data[access.index]
    return result


_WIDE = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
    32: np.dtype("V32"),
}


@instruction("ld", "ldu")
def decode_ld(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    hinted = _HINTED in modifiers.names
    take_hints(decoder, item, modifiers)
    order = take_order(modifiers)
    space = take_space(modifiers)
    vector = modifiers.take("v2", "v4", "v8")
    count = int(vector[1:]) if vector else 1
    types = modifiers.types()
    if len(types) != 1 or len(item.operands) != (3 if hinted else 2) or types[0].bits == 128:
        raise decoder.unsupported()
    type_ = types[0] if types[0] is not PRED else B8
    d, source = item.operands[:2]
    parts = d.items if isinstance(d, Group) and vector else [d]
    if len(parts) != count:
        raise decoder.error(f"expected {count} destination registers")
    if space == "param" and _param_load(decoder, parts, type_, source):
        return
    address = address_slot(decoder, source, space)
    memory_space = "global" if space in ("const", "param") else space
    wide = _WIDE[type_.bytes * count]
    note_granule(decoder, memory_space, wide.itemsize)
    slots = [_landing(decoder, part, type_) for part in parts]

    def step(group) -> None:
        addresses = group.R[address]
        mask = group.mask
        uniform = addresses.size == 1 and memory_space in ("global", "generic")
        if uniform and WINDOW_END <= int(addresses[0]):
            # One address for all threads: the value is the same as well.
            accesses = resolve(group, item, "global", addresses, wide, False, None, wide.itemsize)
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
            read(group, item, accesses, order)
            loaded = gather(accesses, group.n, wide)
        if count == 1:
            for slot in slots:
                slot(group, loaded)
        else:
            pieces = np.ascontiguousarray(loaded.view(type_.storage).reshape(-1, count).T)
            for slot, piece in zip(slots, pieces):
                slot(group, piece)

    decoder.emit(step)


def _landing(decoder: Decoder, part, type_: PtxType):
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


def _param_load(decoder: Decoder, parts: list, type_: PtxType, source) -> bool:
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

            def compute(R, offset=offset):
                return np.ascontiguousarray(R[buffer][:, offset : offset + type_.bytes]).view(type_.storage)[:, 0]

            decoder.put(part, type_, compute, raw=True)
    return True


@instruction("st")
def decode_st(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    hinted = _HINTED in modifiers.names
    take_hints(decoder, item, modifiers)
    if modifiers.take("async", "bulk"):
        raise decoder.unsupported()
    order = take_order(modifiers)
    space = take_space(modifiers)
    vector = modifiers.take("v2", "v4", "v8")
    count = int(vector[1:]) if vector else 1
    types = modifiers.types()
    if len(types) != 1 or len(item.operands) != (3 if hinted else 2) or types[0].bits == 128:
        raise decoder.unsupported()
    type_ = types[0] if types[0] is not PRED else B8
    target, value = item.operands[:2]
    parts = value.items if isinstance(value, Group) and vector else [value]
    if len(parts) != count:
        raise decoder.error(f"expected {count} source registers")
    slots = [decoder.src(part, type_, wider=True) for part in parts]
    if space == "param":
        _param_store(decoder, target, slots, type_)
        return
    if space == "const":
        raise decoder.error("a store to constant memory")
    address = address_slot(decoder, target, space)
    wide = _WIDE[type_.bytes * count]
    note_granule(decoder, space, wide.itemsize)

    def step(group) -> None:
        R, mask, n = group.R, group.mask, group.n
        addresses = R[address]
        threads = None if mask is None else np.flatnonzero(mask)
        addresses = np.broadcast_to(addresses, (n,)) if threads is None else np.broadcast_to(addresses, (n,))[threads]
        if count == 1:
            values = np.broadcast_to(R[slots[0]], (n,))
        else:
            block = np.empty((n, count), type_.storage)
            for number, slot in enumerate(slots):
                block[:, number] = R[slot]
            values = block.view(wide)[:, 0]
        for access in resolve(group, item, space, addresses, wide, True, threads, wide.itemsize):
            access.store(group, item, values, order)

    decoder.emit(step)


def _param_store(decoder: Decoder, target, slots: list[int], type_: PtxType) -> None:
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


@instruction("isspacep")
def decode_isspacep(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    space = take_space(modifiers)
    d, a = decoder.operands(2)
    x = decoder.src(a, U64)
    low, high = {"shared": (SHARED_WINDOW, LOCAL_WINDOW), "local": (LOCAL_WINDOW, WINDOW_END)}.get(
        space, (WINDOW_END, 1 << 63)
    )
    decoder.put(d, PRED, lambda R: (R[x] >= np.uint64(low)) & (R[x] < np.uint64(high)), raw=True)


@instruction("mapa")
def decode_mapa(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """The address of the same variable in the shared memory of another block of the cluster."""
    space = take_space(modifiers)
    (type_,) = modifiers.types()
    d, a, b = decoder.operands(3)
    x, rank = decoder.src(a, type_), decoder.src(b, U32)
    window = type_.storage.type(SHARED_WINDOW if space == "generic" else 0)
    low = type_.storage.type(0xFFFFFF)

    def compute(R):
        above = (R[rank] + np.uint32(1)).astype(type_.storage) << type_.storage.type(24)
        return window | above | R[x] & low

    decoder.put(d, type_, compute, raw=True)


@instruction("getctarank")
def decode_getctarank(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    take_space(modifiers)
    (type_,) = modifiers.types()
    d, a = decoder.operands(2)
    x = decoder.src(a, type_)
    own = decoder.special(Special("%cluster_ctarank"), U32)

    def compute(R):
        above = (R[x] >> type_.storage.type(24) & type_.storage.type(0xFF)).astype(np.uint32)
        return np.where(above > 0, above - np.uint32(1), R[own])

    decoder.put(d, U32, compute, raw=True)


# -- reading memory for built-in functions ---------------------------------------------------------------------------


def read_generic(group, item: Instruction, address: int, size: int, thread: int) -> bytes:
    """Bytes that one thread sees at a generic address."""
    addresses = np.arange(address, address + size, dtype=np.uint64)
    result = bytearray()
    for each in addresses:
        (access,) = resolve(group, item, "generic", np.array([each]), np.dtype(np.uint8), False, np.array([thread]), 1)
        result += bytes(access.data[access.index])
    return bytes(result)


def read_string(group, item: Instruction, address: int, thread: int) -> str:
    text = bytearray()
    while (byte := read_generic(group, item, address + len(text), 1, thread)) != b"\0":
        text += byte
    return text.decode("utf-8", "replace")
