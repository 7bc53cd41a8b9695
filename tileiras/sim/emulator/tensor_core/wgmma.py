"""Dots of a warpgroup, `wgmma.mma_async` (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
Instructions").

A dot reads its operands and writes its accumulators as late as possible, when `wgmma.wait_group` waits for it. Until
then its accumulators are in flight: reading or writing them is an error, and so is writing the registers of A. Each of
the four warps of a warpgroup has 16 rows of D; operands in shared memory are read once for all of them, when the first
of them waits.

D consists of fragments of `mma`, 8 columns each; A in registers is a fragment of `mma` with 16 rows.  Sums of f8
products in f32 have fewer bits than these (`narrow_sums.py`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arithmetic import rounding
from ..launch.recording import Commit, Multiply, WaitGroup, each_warp
from ..memory.accesses import Access, check_written
from ..order.races import differ
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group, Immediate
from ..ptx.types import B32, PRED, TYPES, U64
from .in_flight import Accumulators, InFlight
from .matrix_descriptor import Operand, begin_reads
from .mma import fragment
from .narrow_sums import is_narrow, narrow_sum
from .warpgroups import Lockstep

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")

#: type of A -> (bits of an element, types of B, types of D)  (PTX ISA, wgmma.mma_async: "Syntax").
_TYPES = {
    "f16": (16, ("f16",), ("f16", "f32")),
    "bf16": (16, ("bf16",), ("f32",)),
    "tf32": (32, ("tf32",), ("f32",)),
    "e4m3": (8, ("e4m3", "e5m2"), ("f16", "f32")),
    "e5m2": (8, ("e4m3", "e5m2"), ("f16", "f32")),
    "s8": (8, ("s8", "u8"), ("s32",)),
    "u8": (8, ("s8", "u8"), ("s32",)),
}
_WARPS = 4
_EARLY = "an accumulator of this product is used before wgmma.wait_group has waited for it"


class Warpgroup:
    """State of the warps of a group: ``committed`` groups and ``issued`` dots of each warp, the dots not waited for,
    and the registers at the last `wgmma.fence`."""

    __slots__ = ("committed", "fenced", "issued", "products", "registers")

    def __init__(self, group: WarpGroup) -> None:
        warps = group.n // 32
        self.committed = np.zeros(warps, np.int64)
        self.issued = np.zeros(warps, np.int64)
        self.fenced = np.zeros(warps, bool)
        self.registers: list = []
        self.products: list[Product] = []


def _of(group: WarpGroup) -> Warpgroup:
    if group.warpgroup is None:
        group.warpgroup = Warpgroup(group)
    return group.warpgroup


class Form(NamedTuple):
    """Decoded instruction: types, sizes, slots of D's registers, of those of A or its descriptor, of B's and of the
    predicate that adds D; signs of A and B; the operands in shared memory, A first if it is there."""

    item: Instruction
    types: tuple[str, str, str]
    n: int
    k: int
    saturating: bool
    d: list[int]
    a_registers: list[int]
    descriptors: list[int]
    scale_d: int
    signs: tuple[int, int]
    operands: list[Operand]

    @property
    def is_narrow(self) -> bool:
        return is_narrow(self.types[1], self.types[2], self.types[0])


class Product:
    """One `wgmma.mma_async` of ``warps`` of a group, which are its rows of ``descriptors``, ``added`` and so on."""

    __slots__ = (
        "a_values", "accumulators", "added", "descriptors", "form", "found", "group", "numbers", "order", "warps",
    )  # fmt: skip

    def __init__(self, group: WarpGroup, form: Form, warps: np.ndarray, state: Warpgroup) -> None:
        self.group = group
        self.form = form
        self.warps = warps
        self.order = state.issued[warps].copy()
        self.numbers = state.committed[warps].copy()
        lanes = warps * 32
        for slot in form.descriptors:
            words = group.full(slot).reshape(-1, 32)[warps]
            if (words != words[:, :1]).any():
                group.fault("the lanes of a warp have different matrix descriptors", form.item)
        self.descriptors = np.stack([group.full(slot)[lanes] for slot in form.descriptors], axis=1)
        self.added = np.broadcast_to(group.R[form.scale_d], (group.n,))[lanes].copy()
        self.found: list[list[tuple[Access, np.ndarray]]] = []  # operands in shared memory, with their units, by warp
        self.a_values = [group.R[slot] for slot in form.a_registers]
        self.accumulators = self._begin()

    def _begin(self) -> Accumulators:
        """The accumulators, which are now in flight."""
        group, form = self.group, self.form
        value = group.R[form.d[0]]
        accumulators = value.accumulators if isinstance(value, InFlight) else None
        # Registers that were moved to others while in flight are the same registers under other names.
        if accumulators is None or not accumulators.count.any() or not accumulators.are_in(form.d):
            accumulators = Accumulators(group, form.item, form.d, form.types[0], _EARLY)
        accumulators.issue(form.item, self.warps)
        return accumulators

    def begin_reads(self) -> None:
        """Check the operands in shared memory, which may be read from now on."""
        group, item, operands = self.group, self.form.item, self.form.operands
        accesses = [
            [operand.access(group, item, operand.decode(group, item, int(word), warp), warp)
             for operand, word in zip(operands, words)]
            for warp, words in zip(self.warps.tolist(), self.descriptors)
        ]  # fmt: skip
        begin_reads(group, item, [access for those in accesses for access in those])
        self.found = [[(access, access.data[access.index]) for access in those] for those in accesses]

    def land(self, warps: np.ndarray) -> bool:
        """Complete the dot for some of its warps; True if it is complete for all."""
        selection = np.isin(self.warps, warps)
        if selection.any():
            self._land(np.flatnonzero(selection))
            rest = ~selection
            self.warps, self.order, self.numbers = self.warps[rest], self.order[rest], self.numbers[rest]
            self.descriptors, self.added = self.descriptors[rest], self.added[rest]
            self.found = [self.found[at] for at in np.flatnonzero(rest).tolist()] if self.found else []
        return not self.warps.size

    def _land(self, rows: np.ndarray) -> None:
        group, form = self.group, self.form
        warps, accumulators = self.warps[rows], self.accumulators
        tiles = accumulators.tiles[warps]
        if group.launch.multiply:
            from_registers = self._a_in_registers(warps) if form.a_registers else None
            for at in rows.tolist():
                self._check_operands(at, int(self.warps[at]))
            factors = [self._factors(at, None if from_registers is None else from_registers[int(self.warps[at])])
                       for at in rows.tolist()]  # fmt: skip
            tiles = self._accumulate(factors, tiles, rows)
        if not all(isinstance(group.R[slot], InFlight) for slot in form.d):
            group.fault("an accumulator of this product was written before wgmma.wait_group", form.item,
                        int(warps[0]) * 32)  # fmt: skip
        registers = group.warpgroup.registers
        if accumulators.land(warps, tiles, form.d) and registers:
            for slot in form.d:
                registers[slot] = group.R[slot]

    def _check_operands(self, at: int, warp: int) -> None:
        """Check that no operand was written before the wait."""
        group, item = self.group, self.form.item
        for access, before in self.found[at]:
            check_written(group, item, access)
            if differ(access.data[access.index], before).any():
                group.fault("shared memory that this product reads was written before wgmma.wait_group", item,
                            warp * 32)  # fmt: skip

    def _a_in_registers(self, warps: np.ndarray) -> dict[int, np.ndarray]:
        group, form = self.group, self.form
        threads = (warps[:, None] * 32 + np.arange(32)).reshape(-1)
        for slot, before in zip(form.a_registers, self.a_values):
            if group.R[slot] is not before and _differs(group, group.R[slot], before, threads):
                group.fault("a register of A was written before wgmma.wait_group", form.item, int(threads[0]))
        every = fragment(group, form.a_registers, "a", form.types[1], 16, form.k)
        return {warp: every[warp] for warp in warps.tolist()}

    def _factors(self, at: int, from_registers: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """(16, k) and (k, n) binary64: the rows of A of a warp, ``from_registers`` or from shared memory, and B; or
        their product alone, which the warps of a warpgroup share.

        Operands in shared memory are read by the first warp of a warpgroup that lands.
        """
        group, form = self.group, self.form
        warp = int(self.warps[at])
        number = int(group.thread[warp * 32]) // 32
        key = (int(group.warp_cta[warp]), number // _WARPS, int(self.order[at]))
        uses, a, b = group.batch.warpgroup_operands.pop(key, (_WARPS, None, None))
        if a is None and b is None:
            *matrices, b = (
                operand.read(group, form.item, access, units)
                for operand, (access, units) in zip(form.operands, self.found[at])
            )
            b = b.T if form.signs[1] == 1 else -b.T
            a = self._signed(matrices[0]) if matrices else None
            if a is not None and not form.is_narrow:
                a, b = a @ b, None
        if uses > 1:
            group.batch.warpgroup_operands[key] = (uses - 1, a, b)
        if from_registers is not None:
            return self._signed(from_registers), b
        return a[16 * (number % _WARPS) :][:16], b

    def _signed(self, a: np.ndarray) -> np.ndarray:
        return a if self.form.signs[0] == 1 else -a

    def _accumulate(
        self, factors: Sequence[tuple[np.ndarray, np.ndarray | None]], tiles: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """The bits of D, (warps, 16, n), from the previous ones and the factors."""
        form, d_type = self.form, self.form.types[0]
        added = self.added[rows][:, None, None]
        if form.is_narrow:
            before = np.where(added, rounding.decode(tiles, d_type), 0.0)
            sums = [narrow_sum(a, b, form.types[1:], start) for (a, b), start in zip(factors, before)]
            return rounding.encode(np.stack(sums), d_type)
        products = np.stack([a if b is None else a @ b for a, b in factors])
        if d_type == "s32":
            total = products.astype(np.int64) + np.where(added, tiles.view(np.int32), 0)
            total = np.clip(total, -(2**31), 2**31 - 1) if form.saturating else total
            return total.astype(np.int32).view(np.uint32)
        if not added.any():
            return rounding.encode(products, d_type)
        before = rounding.decode(tiles, d_type)
        return rounding.encode(products + (before if added.all() else np.where(added, before, 0.0)), d_type)


def _check_alike(group: WarpGroup, item: Instruction, warps: np.ndarray, operands: Sequence[Hashable]) -> None:
    """Check that all warps of a warpgroup run the same `wgmma` instructions, with the same descriptors and scale of
    D."""
    units = group.batch.units
    lockstep = units.get("wgmma")
    if lockstep is None:
        lockstep = units["wgmma"] = Lockstep(group.batch, "wgmma instruction")
    for row, own in zip(warps.tolist(), operands):
        lockstep.run(group, item, row, own)


def _differs(group: WarpGroup, value: np.ndarray, before: np.ndarray, threads: np.ndarray) -> bool:
    if isinstance(value, InFlight) or isinstance(before, InFlight):
        return value is not before
    return bool((np.broadcast_to(value, (group.n,))[threads] != np.broadcast_to(before, (group.n,))[threads]).any())


def _active_warps(group: WarpGroup) -> np.ndarray:
    return np.flatnonzero(group.active_lanes().any(1))


def _begin_aligned(decoder: Decoder, modifiers: Modifiers) -> None:
    if modifiers.take("sp") or not modifiers.take("sync") or not modifiers.take("aligned"):
        raise decoder.unsupported()
    decoder.begin_collective(None)


@instruction("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")
def decode_order(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    operation, pending = item.modifiers[0], 0
    _begin_aligned(decoder, modifiers)
    if operation == "wait_group":
        pending = decoder.group_count()
    else:
        decoder.operands(0)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        state, warps = _of(group), _active_warps(group)
        _check_alike(group, item, warps, [id(item)] * warps.size)
        if group.launch.recorder is not None and operation != "fence":
            each_warp(group, item, Commit("wgmma") if operation == "commit_group" else WaitGroup("wgmma", pending))
        if operation == "fence":
            state.fenced[warps] = True
            state.registers = list(group.R)
        elif operation == "commit_group":
            state.committed[warps] += 1
        else:
            rest = []
            for product in state.products:
                due = product.numbers < state.committed[product.warps] - pending
                if not product.land(np.intersect1d(product.warps[due], warps)):
                    rest.append(product)
            state.products = rest

    decoder.emit(step)


@instruction("wgmma.mma_async")
def decode_product(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    _begin_aligned(decoder, modifiers)
    shape = next((name for name in modifiers.names if _SHAPE.fullmatch(name)), None)
    saturating = bool(modifiers.take("satfinite"))
    names = [name for name in modifiers.names if name in TYPES]
    if shape is None or len(names) != 3 or names[1] not in _TYPES:
        raise decoder.unsupported()
    modifiers.names = [name for name in modifiers.names if name not in names and name != shape]
    d_type, a_type, b_type = names
    n, k = (int(text) for text in _SHAPE.fullmatch(shape).groups())
    bits, b_types, d_types = _TYPES[a_type]
    if b_type not in b_types or d_type not in d_types or k * bits != 256 or n not in range(8, 257, 8):
        raise decoder.unsupported()
    if saturating and d_type != "s32":
        raise decoder.unsupported()
    if len(item.operands) < 4 or not isinstance(item.operands[0], Group):
        raise decoder.error("expected D, A, B and scale-d")
    decoder.program.moves_in_flight = True
    d, a, b, scale, *constants = item.operands
    if len(d.items) != n // (4 if d_type == "f16" else 2):
        raise decoder.error(f"{shape} does not have {len(d.items)} registers of D")
    in_registers = isinstance(a, Group)
    if in_registers and len(a.items) != 4:
        raise decoder.error("A has four registers")
    signs, orders = _constants(decoder, constants, in_registers, bits == 16, d_type != "s32")
    operands = [Operand(a_type, 64, k, orders[0]), Operand(b_type, n, k, orders[1])]
    form = Form(
        item, (d_type, a_type, b_type), n, k, saturating,
        [decoder.dst(each, B32) for each in d.items],
        [decoder.src(each, B32) for each in a.items] if in_registers else [],
        [decoder.src(each, U64) for each in ([b] if in_registers else [a, b])],
        decoder.src(scale, PRED), signs, operands[in_registers:],
    )  # fmt: skip
    a_bytes = 0 if in_registers else 64 * k * bits // 8
    result = Multiply("wgmma", 64, n, k, a_type, d_type, a_bytes, n * k * bits // 8, 1)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        state, warps = _of(group), _active_warps(group)
        _check_fence(group, form, state, warps)
        product = Product(group, form, warps, state)
        alike = zip(product.descriptors.tolist(), product.added.tolist())
        _check_alike(group, item, warps, [(id(item), *words, added) for words, added in alike])
        if group.launch.recorder is not None:
            each_warp(group, item, result)
        if group.launch.multiply:
            product.begin_reads()
        state.issued[warps] += 1
        state.products.append(product)

    decoder.emit(step)


def _constants(
    decoder: Decoder, constants: list, in_registers: bool, ordered: bool, signed: bool
) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """(signs of A and B, whether they are MN-major), from the last operands."""
    if not all(isinstance(each, Immediate) for each in constants):
        raise decoder.error("scales and orders of factors are constants")
    values = [int(each.value) for each in constants]
    signs, orders = values[: 2 * signed], values[2 * signed :]
    if any(sign not in (1, -1) for sign in signs):
        raise decoder.error("factors are scaled by 1 or -1")
    if len(values) != 2 * signed + (2 - in_registers) * ordered:
        raise decoder.error("the number of constants does not fit")
    a_order, b_order = [False, False, *map(bool, orders)][-2:]
    return (signs[0], signs[1]) if signed else (1, 1), (a_order, b_order)


def _check_fence(group: WarpGroup, form: Form, state: Warpgroup, warps: np.ndarray) -> None:
    """Check that no register was written by other instructions since `wgmma.fence`."""
    if not state.fenced[warps].all():
        group.fault("no wgmma.fence before the first product", form.item, int(group.active()[0]))
    if "wgmma-fence" in group.launch.waived:
        return
    threads = group.active()
    for slot in (*form.d, *form.a_registers):
        value, before = group.R[slot], state.registers[slot]
        if value is before or isinstance(value, InFlight):
            continue
        if isinstance(before, InFlight):
            before = before.accumulators.values()[before.number]
        if _differs(group, value, before, threads):
            group.fault("a register of this product was written after the last wgmma.fence", form.item,
                        int(threads[0]))  # fmt: skip
