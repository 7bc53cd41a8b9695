"""In which order the code takes each sum of the program: the artifact's half of a certificate of order.

A pass gives what it makes of an operation the operation's location.  So each sum, and each loop, of nv_tileaa gets a
location object of its own, equal to the one it had; what has that very object in nv_tileas was made of it.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import FusedLoc, Location, Operation
from tileiras.layout.encoding import layout_of
from tileiras.layout.reduction_order import reduction_steps, tree_of
from tileiras.layout.scan import is_scannable, scan_layout
from tileiras.named_tuple import NamedTuple
from tileiras.resources.large_dots import accumulates_wider
from tileiras.targets import UNIVERSAL_FMA, Target

from .certificate import Certificate
from .combiners import ROUNDED, is_float, is_orderless
from .flow import Flow

DOTS = (tileas.DotOp, tileas.BlockScaledMmaOp, tileas.AsyncDotOp, tileas.TensorDotOp)
COLLECTIVES = (tileas.ReduceOp, tileas.ScanOp)


class Order(NamedTuple):
    """How one operation of nv_tileas takes its part of a sum: what is compared, and words for it."""

    compared: tuple
    words: str


class Traced:
    """The sums of a function of nv_tileaa, to be found again in what is made of it."""

    def __init__(self, flow: Flow, certificate: Certificate) -> None:
        self.certificate = certificate
        self._sums: dict[int, int] = {}
        self._alive: list[Location] = []
        for number, site in enumerate(flow.sites):
            if site.kind in ("reduce", "scan", "dot"):
                self._sums[self._mark(site.op)] = number
        self._loops = {self._mark(op) for op in flow.func.walk() if isinstance(op, (scf.ForOp, scf.WhileOp))}

    def _mark(self, op: Operation) -> int:
        op.location = copy.copy(op.location)
        self._alive.append(op.location)  # of another one that is gone it could have the identity
        return id(op.location)

    def orders(self, func: aa.FuncOp, target: Target) -> list[Order | None]:
        """In which order a function of nv_tileas takes each sum; None where that is not known."""
        found: list[dict[Order, None] | None] = [{} for _ in self.certificate.sums]
        for op in func.walk():
            sums = {self._sums[part] for part in _identities(op.location) if part in self._sums}
            order = self._order(op, target)
            if order is None:
                continue
            if len(sums) != 1 and isinstance(op, (*DOTS, *COLLECTIVES)):
                return [None] * len(found)  # made of one, or of several
            for number in sums:
                found[number][order] = None  # type: ignore[index]
        return [_joined(each) for each in found]

    def _order(self, op: Operation, target: Target) -> Order | None:
        if isinstance(op, tileas.ReduceOp):
            return None if is_orderless(op.body.block) else _of_reduction(op, target)
        if isinstance(op, tileas.ScanOp):
            return None if is_orderless(op.body.block) else _of_scan(op)
        if isinstance(op, DOTS):
            return _of_dot(op, target) if _is_of_floats(op) else None
        if isinstance(op, ROUNDED) and not isinstance(op.parent_op, COLLECTIVES):
            around = [loop for loop in scf.loops_around(op) if not self._loops & set(_identities(loop.location))]
            parts = getattr(around[0], "trip_count", None) if around else 1
            return Order(("slices", op.name, parts), f"{parts} slices one after the other" if around else op.name)
        return None


def complete(traced: Traced, functions: Iterable[aa.FuncOp], target: Target) -> Certificate:
    """The certificate of a function with the order of each sum in what was made of it: functions of nv_tileas, the
    first of which is launched in the place of the others where those cannot be."""
    first, *others = (traced.orders(func, target) for func in functions)
    half = traced.certificate
    sums, differ = [], set()
    for number, each in enumerate(half.sums):
        order = first[number]
        if order is not None:
            each = each._replace(key=_digest(order.compared), order=order.words)
            if any(other[number] is None or other[number].compared != order.compared for other in others):  # type: ignore[union-attr]
                differ.add(number)
                words = "; ".join(other[number].words if other[number] else "unknown" for other in others)  # type: ignore[union-attr]
                each = each._replace(order=f"{each.order}; in pairs of tile blocks: {words}")
        sums.append(each)
    outputs = tuple(
        out._replace(unsure=("grid.x",)) if differ.intersection(out.sums) and "grid.x" not in out.depends() else out
        for out in half.outputs
    )
    return half._replace(sums=tuple(sums), outputs=outputs)


def _joined(orders: dict[Order, None]) -> Order | None:
    """Of all operations that take parts of a sum; agents, and stages of a loop, may have the same one twice."""
    if not orders:
        return None
    return Order(tuple(each.compared for each in orders), "; ".join(each.words for each in orders))


def _digest(compared: tuple) -> str:
    return hashlib.blake2s(repr(compared).encode(), digest_size=4).hexdigest()


def _identities(location: Location) -> Iterator[int]:
    yield id(location)
    if isinstance(location, FusedLoc):
        for part in location.locations:
            yield from _identities(part)


def _is_of_floats(op: Any) -> bool:
    held = op.c.type
    return is_float(op.c) if not hasattr(held, "tile") else str(held.tile.element_type)[0] == "f"


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
    held = shape[axis] // (lanes * warps)
    words = [
        f"{held} of a thread one after the other" if held > 1 else "",
        f"{lanes} lanes by doubled distances" if lanes > 1 else "",
        f"{warps} warps one after the other" if warps > 1 else "",
    ]
    return Order(("scan", op.reverse is not None, held, lanes, warps), ", ".join(filter(None, words)))


_DEPTH = re.compile(r"m\d+n\d+k(\d+)")
"""Of an instruction, in its atom's name."""


def _of_dot(op: Any, target: Target) -> Order:
    """K is taken in ascending order by all instructions (`layout/tileas_to_llvm`); within one of them, the hardware's
    order is that of the instruction, whatever its operands."""
    atom = op.atom.atom
    extra: tuple = ()
    if isinstance(op, tileas.BlockScaledMmaOp):
        extra += ("scaled", op.block)
    if accumulates_wider(op) if isinstance(op, tileas.DotOp) else False:
        extra += ("rounded", op.a.type.shape[-1])  # once for each dot
    if getattr(op, "exchanged", None) is not None:
        extra += ("exchanged",)
    if getattr(op, "overwrites", None) is not None or isinstance(op, tileas.TensorDotOp) and not _always_adds(op):
        extra += ("begins",)  # without the zero that it would be added to
    depth = _DEPTH.search(atom)
    by = "multiply-adds" if atom == UNIVERSAL_FMA else atom
    return Order(("dot", atom, *extra), f"K ascending by {depth.group(1) if depth else 1}, {by}")


def _always_adds(op: tileas.TensorDotOp) -> bool:
    from tileiras.dialects.arith import constant_integer

    return constant_integer(op.adds) not in (None, 0)
