"""Loads and stores through tiles of pointers, tokens, memory of a tile block, globals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import element_type_of

from .access import load_through, store_through
from .elements import Kind, Lanes, kind_of
from .plan import is_tile
from .tiles import At

if TYPE_CHECKING:
    from .lower import Lowering


def pointee(low: Lowering, op: Any) -> Kind:
    """The kind of the elements behind pointers."""
    element = element_type_of(op.pointer.type).pointee
    low.require(op, getattr(element, "width", 64) != 4, "4-bit elements through pointers")
    return kind_of(element)


def nothing(low: Lowering, op: Any) -> None:
    """Operations run in program order, which tokens cannot forbid; objects have no debug information."""


def load(low: Lowering, op: Any) -> None:
    kind, order = pointee(low, op), op.mem_semantic.value

    def at_once(at: At) -> Lanes:
        pointers = low.lanes(op.pointer, at)
        mask = low.lanes(op.mask, at) if op.mask is not None else None
        other = low.lanes(op.other, at) if op.other is not None else None
        return load_through(low, kind, pointers, mask, other, order)

    low.fill(op.data, at_once, lanes=0 if order == "weak" else 1)


def over(low: Lowering, value: Any, lanes: int = 0) -> Any:
    """Loops over the elements of a value, which may be a scalar."""
    return low.each(value.type.shape if is_tile(value) else (), lanes)


def store(low: Lowering, op: Any) -> None:
    pointee(low, op)
    order = op.mem_semantic.value
    with over(low, op.data, 0 if order == "weak" else 1) as at:
        pointers, data = low.lanes(op.pointer, at), low.lanes(op.data, at)
        mask = low.lanes(op.mask, at) if op.mask is not None else None
        store_through(low, pointers, data, mask, order)


def get_global(low: Lowering, op: Any) -> None:
    name = op.symbol.root
    low.values[op.result] = Lanes(kind_of(op.result.type), 1, low.code.value(f"ptrtoint ptr @{quoted(name)} to i64"))


def quoted(name: str) -> str:
    """A symbol as an identifier of LLVM."""
    plain = all(letter.isascii() and (letter.isalnum() or letter in "-$._") for letter in name)
    if plain and name and not name[0].isdigit():
        return name
    return '"' + "".join(f"\\{byte:02X}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte)
                         for byte in name.encode("utf-8", "surrogateescape")) + '"'  # fmt: skip


def alloca(low: Lowering, op: Any) -> None:
    """Memory of the thread's scratch, which other threads reach as well."""
    alignment = op.alignment.value
    offset = low.arena.take(op.bytes + alignment)
    code = low.code
    address = code.value("ptrtoint ptr %arena to i64")
    address = code.value(f"add i64 {address}, {offset + alignment - 1}")
    address = code.value(f"and i64 {address}, {-alignment}")
    low.values[op.result] = Lanes(kind_of(op.result.type), 1, address)


FAMILY = {
    "nv_tileaa.create_mem_token": nothing,
    "nv_tileaa.join_mem_token": nothing,
    "nv_tileaa.gdc_wait": nothing,
    "nv_tileaa.gdc_launch_dependents": nothing,
    "nv_tileaa.fence_alias": nothing,
    "nv_tileaa.dealloc": nothing,
    "debuginfo.value": nothing,
    "nv_tileaa.load": load,
    "nv_tileaa.store": store,
    "nv_tileaa.get_global": get_global,
    "nv_tileaa.alloca": alloca,
}
