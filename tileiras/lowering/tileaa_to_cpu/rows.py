"""Rows: long stretches of memory that tile blocks read and write one after the other.

A row that is read stays where it is, unless it ends at an edge or a store before its last use overlaps it; then it is
copied, as other tiles are.

The processor's own prefetchers stop at the end of a page, where the row of the next tile block often begins, and they
ask for no row that is written.  So a loop that computes with a row in the first cache fetches the lines behind the rows
that were read, and the lines of rows that will be written.  Fetched while a row is read, lines would wait for each
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import has_no_effect
from tileiras.support.named_tuple import NamedTuple

from .code import Index
from .plan import is_weak_load

if TYPE_CHECKING:
    from .lower import Lowering
    from .views import Place

AHEAD = 512
"""Bytes that a fetch is ahead of the same position of the row: the beginning of a row has been fetched before it."""
LEAST = 2048
"""Bytes of a long row."""
LINE = 64

STORE = "nv_tileaa.tiled_store"


class Row(NamedTuple):
    """The row of an access: the operation, its address, the elements and their size, and whether it is written."""

    op: Any
    address: str
    count: int
    size: int
    is_store: bool


def _is_row(place: Place) -> bool:
    """Whether the tile of an access is one row, and long."""
    dim, size = place.dim, place.kind.size
    rest = [extent for number, extent in enumerate(place.shape) if number != dim]
    if dim < 0 or place.sparse >= 0 or place.kind.width == 4 or any(extent != 1 for extent in rest):
        return False
    return place.shape[dim] * size >= LEAST


class Rows:
    """The rows that the code so far has read and not yet prefetched, and places of stores known before their turn."""

    def __init__(self, low: Lowering) -> None:
        self._low = low
        self._read: list[Row] = []
        self._stored: dict[Any, Place] = {}

    def stored(self, op: Any) -> Place:
        """The place of a store; its view and coordinates have values."""
        from .views import Place

        if op not in self._stored:
            self._stored[op] = Place(self._low, op)
        return self._stored[op]

    def _is_known(self, store: Any) -> bool:
        """Whether the place of a store can be computed before its turn."""
        return all(value in self._low.values for value in (store.view, *store.coords))

    # -- in place ----------------------------------------------------------------------------------------------------

    def read(self, op: Any, place: Place) -> str:
        """Note the row of a load.  Returns the condition under which it can stay in its place, empty for never."""
        if not _is_row(place):
            return ""
        self._read.append(Row(op, place.first, place.shape[place.dim], place.kind.size, False))
        low, code = self._low, self._low.code
        stores, last, after = [], low.plan.end(op.data), op.next
        while after is not None and low.plan.positions[after] <= last:
            if after.name == STORE and self._is_known(after):
                stores.append(after)
            elif not has_no_effect(after) and not is_weak_load(after):
                return ""
            after = after.next
        condition = place.inside
        size = place.shape[place.dim] * place.kind.size
        for store in stores:
            store_row = self.stored(store)
            if store_row.sparse >= 0:
                return ""
            first, end = store_row.extent()
            before = code.value(f"icmp ule i64 {end}, {place.first}")
            behind = code.value(f"icmp uge i64 {first}, {code.add(place.first, size)}")
            apart = code.value(f"or i1 {before}, {behind}")
            condition = code.value(f"and i1 {condition}, {apart}")
        return condition

    # -- prefetching -------------------------------------------------------------------------------------------------

    def around(self, reduction: Any) -> list[Row]:
        """The rows that the loop of a reduction prefetches: it reads none of them for the first time."""
        count = reduction.operands[0].type.shape[reduction.dim.value]
        rows = [row for row in self._read if row.op.parent is reduction.parent and row.count == count]
        if not rows or any(self._low.plan.sinks_into(row.op) is reduction for row in rows):
            return []
        self._read = [row for row in self._read if row not in rows]
        return [*rows, *(row for row in self._stores(reduction) if row.count == count)]

    def _stores(self, op: Any) -> Iterator[Row]:
        """Rows of the stores behind an operation whose places are known."""
        after = op.next
        while after is not None:
            if after.name == STORE and self._is_known(after):
                place = self.stored(after)
                if _is_row(place):
                    yield Row(after, place.first, place.shape[place.dim], place.kind.size, True)
            after = after.next

    def prefetch(self, rows: Sequence[Row], index: Index, count: int) -> None:
        """In a loop: fetch the lines for `count` elements at an index."""
        code = self._low.code
        for row in rows:
            start = AHEAD if row.is_store else AHEAD + row.count * row.size
            offset = code.multiply(index, row.size)
            address = code.pointer(code.value(f"add i64 {row.address}, {offset}"))
            for line in range(0, count * row.size, LINE):
                place = code.offset(address, start + line, "i8")
                numbers = (int(row.is_store), 3, 1)  # for writing or not, into the first cache, data
                code.call("llvm.prefetch.p0", "void", [("ptr", place), *(("i32", str(each)) for each in numbers)])
