"""Vectors of elements in global memory: neighbours at once, others one by one, and only those that a mask selects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .code import Code, suffix, vector
from .elements import EVEN, Kind, Lanes

if TYPE_CHECKING:
    from .lower import Lowering

ATOMIC = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
"""Order of an access -> that of LLVM's instruction; weak accesses are plain ones."""


def _all_true(code: Code, count: int, mask: str) -> str:
    return mask if count == 1 else code.call(f"llvm.vector.reduce.and.v{count}i1", "i1", [(f"<{count} x i1>", mask)])


def neighbours(code: Code, pointers: Lanes, size: int) -> str:
    """Whether pointers that differ by the same number are those of neighbours.

    The number of steps is odd, so that only one step leads from the first to the last, modulo any power of two.
    """
    whole, count = pointers.number(code), pointers.count
    first, last = (code.element("i64", count, whole, lane) for lane in (0, count - 1))
    distance = code.value(f"sub i64 {last}, {first}")
    return code.value(f"icmp eq i64 {distance}, {(count - 1) * size}")


class Ways:
    """Two blocks, and the results of both."""

    def __init__(self, code: Code, condition: str, hints: tuple[str, str] = ("fast", "slow")) -> None:
        self.code = code
        self.labels = [code.label(hint) for hint in hints]
        self.after = code.label("both")
        self.incoming: list[tuple[str, str]] = []
        code.branch(condition, *self.labels)

    @contextlib.contextmanager
    def way(self) -> Iterator[None]:
        self.code.start(self.labels.pop(0))
        yield
        self.code.jump(self.after)

    def result(self, name: str) -> None:
        self.incoming.append((name, self.code.block))


def load_through(
    low: Lowering, kind: Kind, pointers: Lanes, mask: Lanes | None, other: Lanes | None, order: str = "weak"
) -> Lanes:
    """The elements behind pointers, `other` (unspecified without) where the mask is false."""
    code, count = low.code, pointers.count
    type = vector(kind.stored, count)
    replaced = other.stored(code) if other is not None else "zeroinitializer"
    if count == 1:
        return _load_one(low, kind, pointers, mask, other, order)
    truth = mask.number(code) if mask is not None else ""
    if pointers.steps != EVEN:
        return Lanes(kind, count, bits=gather(code, kind, count, pointers.number(code), truth, replaced))
    condition = neighbours(code, pointers, kind.size)
    if mask is not None:
        condition = code.value(f"and i1 {condition}, {_all_true(code, count, truth)}")
    ways = Ways(code, condition)
    with ways.way():
        first = code.pointer(code.element("i64", count, pointers.number(code), 0))
        ways.result(code.value(f"load {type}, ptr {first}, align {_natural(kind)}"))
    with ways.way():
        ways.result(gather(code, kind, count, pointers.number(code), truth, replaced))
    code.start(ways.after)
    return Lanes(kind, count, bits=code.phi(type, ways.incoming))


def _load_one(
    low: Lowering, kind: Kind, pointers: Lanes, mask: Lanes | None, other: Lanes | None, order: str
) -> Lanes:
    code = low.code
    replaced = other.stored(code) if other is not None else "0" if kind.stored[0] == "i" else "0.0"
    place = code.pointer(pointers.number(code))
    load = f"load {kind.stored}, ptr {place}, align {_natural(kind)}"
    if order != "weak":
        bits = f"i{8 * kind.size}"
        load = f"load atomic {bits}, ptr {place} {ATOMIC[order]}, align {kind.size}"

    def loaded() -> str:
        name = code.value(load)
        if order != "weak" and kind.stored in ("float", "double"):
            name = code.value(f"bitcast {bits} {name} to {kind.stored}")
        return name

    if mask is None:
        return Lanes(kind, 1, bits=loaded())
    ways = Ways(code, mask.number(code), ("then", "else"))
    with ways.way():
        ways.result(loaded())
    with ways.way():
        ways.result(replaced)
    code.start(ways.after)
    return Lanes(kind, 1, bits=code.phi(kind.stored, ways.incoming))


def _natural(kind: Kind) -> int:
    """Alignment of plain accesses: views may begin anywhere, and pointers are promised nothing."""
    return 1


def _pointers(code: Code, count: int, addresses: str) -> str:
    return code.value(f"inttoptr <{count} x i64> {addresses} to <{count} x ptr>")


def gather(code: Code, kind: Kind, count: int, addresses: str, mask: str, other: str) -> str:
    type, truth = vector(kind.stored, count), f"<{count} x i1>"
    mask = mask or "splat (i1 true)"
    if count == 1:
        raise ValueError("one element is no vector")
    return code.call(
        f"llvm.masked.gather.{suffix(kind.stored, count)}.v{count}p0", type,
        [(f"<{count} x ptr>", f"align 1 {_pointers(code, count, addresses)}"), (truth, mask), (type, other)],
    )  # fmt: skip


def scatter(code: Code, kind: Kind, count: int, addresses: str, mask: str, data: str) -> None:
    type, truth = vector(kind.stored, count), f"<{count} x i1>"
    mask = mask or "splat (i1 true)"
    code.call(
        f"llvm.masked.scatter.{suffix(kind.stored, count)}.v{count}p0", "void",
        [(type, data), (f"<{count} x ptr>", f"align 1 {_pointers(code, count, addresses)}"), (truth, mask)],
    )  # fmt: skip


def store_through(low: Lowering, pointers: Lanes, lanes: Lanes, mask: Lanes | None, order: str = "weak") -> None:
    """Write elements through the pointers whose mask is true."""
    code, kind, count = low.code, lanes.kind, lanes.count
    data, type = lanes.stored(code), lanes.stored_type
    truth = mask.number(code) if mask is not None else ""
    if count == 1:
        _store_one(code, kind, pointers.number(code), data, truth, order)
        return
    if pointers.steps != EVEN:
        scatter(code, kind, count, pointers.number(code), truth, data)
        return
    condition = neighbours(code, pointers, kind.size)
    if mask is not None:
        condition = code.value(f"and i1 {condition}, {_all_true(code, count, truth)}")
    ways = Ways(code, condition)
    with ways.way():
        first = code.pointer(code.element("i64", count, pointers.number(code), 0))
        code.do(f"store {type} {data}, ptr {first}, align {_natural(kind)}")
    with ways.way():
        scatter(code, kind, count, pointers.number(code), truth, data)
    code.start(ways.after)


def _store_one(code: Code, kind: Kind, address: str, data: str, mask: str, order: str) -> None:
    with code.when(mask) if mask else contextlib.nullcontext():
        place = code.pointer(address)
        if order == "weak":
            code.do(f"store {kind.stored} {data}, ptr {place}, align {_natural(kind)}")
            return
        bits = f"i{8 * kind.size}"
        if kind.stored in ("float", "double"):
            data = code.value(f"bitcast {kind.stored} {data} to {bits}")
        code.do(f"store atomic {bits} {data}, ptr {place} {ATOMIC[order]}, align {kind.size}")
