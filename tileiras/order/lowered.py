"""The artifact's half of a certificate of order: the order in which nv_tileas takes each sum of the program.

Passes give the operations they create the location of the operation they replace.  Each sum and each loop of nv_tileaa
gets a location object of its own, equal to the old one.  An operation of nv_tileas with that object was created from
the sum or the loop.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith import constant_integer
from tileiras.ir import FusedLoc, Location, Operation
from tileiras.layout.encoding import layout_of
from tileiras.layout.reduction_order import reduction_steps, tree_of
from tileiras.layout.scan import is_scannable, scan_layout
from tileiras.resources.large_dots import accumulates_wider
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import UNIVERSAL_FMA, Target

from .certificate import Certificate, Sum
from .combiners import ROUNDED, is_float, is_orderless
from .flow import Flow

DOTS = (tileas.DotOp, tileas.BlockScaledMmaOp, tileas.AsyncDotOp, tileas.TensorDotOp)
COLLECTIVES = (tileas.ReduceOp, tileas.ScanOp)


class Order(NamedTuple):
    """The order of a sum: a tuple for comparisons, and words."""

    compared: tuple
    words: str


class Traced:
    """The sums of a function of nv_tileaa, marked so that nv_tileas can be searched for them."""

    def __init__(self, flow: Flow, certificate: Certificate) -> None:
        self.certificate = certificate
        self._alive: list[Location] = []
        """Keeps the marks alive: the identity of a deleted object may be reused."""
        self._sums: dict[int, int] = {}
        for number, site in enumerate(flow.sites):
            if site.kind in ("reduce", "scan", "dot"):
                self._sums[self._mark(site.op)] = number
        self._loops = {self._mark(op) for op in flow.func.walk() if isinstance(op, (scf.ForOp, scf.WhileOp))}

    def _mark(self, op: Operation) -> int:
        op.location = copy.copy(op.location)
        self._alive.append(op.location)
        return id(op.location)

    def orders(self, func: aa.FuncOp, target: Target) -> list[Order | None]:
        """The order of each sum in a function of nv_tileas; None if it is unknown."""
        parts: list[dict[Order, None]] = [{} for _ in self.certificate.sums]
        for op in func.walk():
            order = self._order(op, target)
            if order is None:
                continue
            sums = {self._sums[mark] for mark in _marks(op.location) if mark in self._sums}
            if len(sums) != 1 and isinstance(op, (*DOTS, *COLLECTIVES)):
                return [None] * len(parts)  # an operation without a source, or with two
            for number in sums:
                parts[number][order] = None
        return [_join(list(each)) for each in parts]

    def _order(self, op: Operation, target: Target) -> Order | None:
        """The order in which one operation takes its part of a sum; None for other operations."""
        if isinstance(op, COLLECTIVES):
            if op.inputs[0].type.shape[op.dim.value] == 1 or is_orderless(op.body.block):
                return None
            return _of_scan(op) if isinstance(op, tileas.ScanOp) else _of_reduction(op, target)
        if isinstance(op, DOTS):
            return _of_dot(op) if _has_floats(op) else None
        if isinstance(op, ROUNDED) and not isinstance(op.parent_op, COLLECTIVES):
            return self._of_slices(op)
        return None

    def _of_slices(self, op: Operation) -> Order:
        """The combination of slices, in a loop that the program does not have."""
        loops = [loop for loop in scf.loops_around(op) if self._loops.isdisjoint(_marks(loop.location))]
        if not loops:
            return Order(("once", op.name), op.name)
        parts = getattr(loops[0], "trip_count", None)
        return Order(("slices", op.name, parts), f"{parts} slices one after the other")


def complete(traced: Traced, functions: Iterable[aa.FuncOp], target: Target) -> Certificate:
    """The whole certificate.  The first function of nv_tileas is the kernel, the others replace it in some launches."""
    kernel, *variants = (traced.orders(func, target) for func in functions)
    half = traced.certificate
    sums, unlike = [], set()
    for number, each in enumerate(half.sums):
        others = [variant[number] for variant in variants]
        sums.append(_with_order(each, kernel[number], others))
        if kernel[number] is not None and any(other != kernel[number] for other in others):
            unlike.add(number)
    outputs = tuple(
        out._replace(unsure=("grid.x",)) if unlike.intersection(out.sums) and "grid.x" not in out.depends() else out
        for out in half.outputs
    )
    return half._replace(sums=tuple(sums), outputs=outputs)


def _with_order(each: Sum, order: Order | None, variants: Sequence[Order | None]) -> Sum:
    if order is None:
        return each
    words, compared = order.words, order.compared
    if any(variant != order for variant in variants):
        in_pairs = "; ".join(variant.words if variant is not None else "unknown" for variant in variants)
        words = f"{words}; in pairs of tile blocks: {in_pairs}"
        compared = compared, *(variant and variant.compared for variant in variants)
    key = hashlib.blake2s(repr(compared).encode(), digest_size=4).hexdigest()
    return each._replace(key=key, order=words)


def _join(orders: list[Order]) -> Order | None:
    """The order of a sum that several operations take.  Agents and peeled iterations duplicate operations, so that
    equal orders count once."""
    if not orders:
        return None
    return Order(tuple(each.compared for each in orders), "; ".join(each.words for each in orders))


def _marks(location: Location) -> Iterator[int]:
    yield id(location)
    if isinstance(location, FusedLoc):
        for part in location.locations:
            yield from _marks(part)


def _has_floats(op: Any) -> bool:
    tile = getattr(op.c.type, "tile", None)
    return is_float(op.c) if tile is None else str(tile.element_type)[0] == "f"


# -- operations of nv_tileas -------------------------------------------------------------------------------------------


def _of_reduction(op: tileas.ReduceOp, target: Target) -> Order:
    steps = reduction_steps(op, layout_of(op.inputs[0].type), target)
    return Order(("reduce", tree_of(steps)), ", ".join(map(str, steps)) or "one element")


def _of_scan(op: tileas.ScanOp) -> Order:
    axis, shape = op.dim.value, op.inputs[0].type.shape
    layout = layout_of(op.inputs[0].type)
    if not is_scannable(layout, axis):
        layout = scan_layout(shape, axis, layout.warps)
    mask = layout.dim_mask(axis)
    lanes, warps = (1 << sum(1 for v in layout.bases(dim) if v & mask) for dim in ("lane", "warp"))
    registers = shape[axis] // (lanes * warps)
    words = [
        f"{registers} of a thread one after the other" if registers > 1 else "",
        f"{lanes} lanes by doubled distances" if lanes > 1 else "",
        f"{warps} warps one after the other" if warps > 1 else "",
    ]
    return Order(("scan", op.reverse is not None, registers, lanes, warps), ", ".join(filter(None, words)))


_DEPTH = re.compile(r"m\d+n\d+k(\d+)")
"""Shape in the name of an atom."""


def _of_dot(op: Any) -> Order:
    """All lowerings of dots take K in ascending order, one instruction after the other.  The atom identifies the order
    within an instruction, which is the hardware's."""
    atom = op.atom.atom
    variant: list[Any] = []
    if isinstance(op, tileas.BlockScaledMmaOp):
        variant += ["scaled", op.block]
    if isinstance(op, tileas.DotOp) and accumulates_wider(op):
        variant += ["rounded", op.a.type.shape[-1]]  # once for each dot
    if getattr(op, "exchanged", None) is not None:
        variant.append("exchanged")
    if _overwrites(op):
        variant.append("overwrites")  # instead of an addition to zero, which turns -0 into +0
    depth = _DEPTH.search(atom)
    by = "multiply-adds" if atom == UNIVERSAL_FMA else atom
    return Order(("dot", atom, *variant), f"K ascending by {depth.group(1) if depth else 1}, {by}")


def _overwrites(op: Any) -> bool:
    """Whether the first dot of a chain overwrites the accumulator."""
    if isinstance(op, tileas.TensorDotOp):
        return constant_integer(op.adds) in (None, 0)
    return getattr(op, "overwrites", None) is not None
