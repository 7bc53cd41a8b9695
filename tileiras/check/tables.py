"""Tables of arrays: rows of numbers in memory with the addresses, sizes and strides of arrays, as lists of arrays are
passed.

A column of a table is a parameter like those of the entry, with a number of its own in each row: its size belongs to a
group of sizes, its stride to a view.  The arrays are memory of a launch besides its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tileiras.ir import DYNAMIC, IntegerType, Operation, Value

from .origins import constant_of, is_copied_to, source, users_of_copies

_ADDRESS = 64


@dataclass
class Table:
    """A parameter of the entry that points to rows of 64-bit numbers, with addresses of arrays among them."""

    pointer: int
    width: int
    """Numbers of a row."""
    columns: dict[int, int] = field(default_factory=dict)
    """Column -> position of its number among the parameters."""

    def contents(self, count: int, rows: Sequence[Mapping[int, int]]) -> np.ndarray:
        """`count` numbers in memory: those of each row by position; numbers of no column are zero."""
        table = np.zeros((-(-count // self.width), self.width), np.int64)
        for row, numbers in zip(table, rows):
            for column, position in self.columns.items():
                row[column] = numbers[position]
        return table.reshape(-1)[:count]


class Column(NamedTuple):
    """The number of a column, which a program takes out of a row."""

    pointer: int
    width: int
    column: int
    value: Value

    @property
    def address_of(self) -> Any:
        """The type of the elements that the number is the address of; None for another number."""
        for op in users_of_copies(self.value):
            if op.name == "cuda_tile.int_to_ptr":
                return op.results[0].type.element_type.pointee_type
        return None


@dataclass
class Behind:
    """An array that an address in a table leads to."""

    element: Any
    name: str
    array: np.ndarray
    """The memory that a run changes."""
    contents: np.ndarray
    """The values before a run."""


def columns(entry: Operation, position: Mapping[Value, int]) -> Iterator[Column]:
    """The numbers that a program takes out of tables with addresses."""
    result = [each for op in entry.walk() if op.name == "cuda_tile.extract" and (each := _column(op, position))]
    tables = {each.pointer for each in result if is_copied_to(each.value, "cuda_tile.int_to_ptr")}
    yield from (each for each in result if each.pointer in tables)


def _column(op: Operation, position: Mapping[Value, int]) -> Column | None:
    """The column of a row of one partition, where the rows are those of a view of a parameter."""
    tile, *indices = op.operands
    load, element = source(tile).defining_op, op.results[0].type.element_type
    numbers = [constant_of(index) for index in indices]
    if not isinstance(element, IntegerType) or element.width != _ADDRESS or len(indices) != 2:
        return None
    if load is None or load.name != "cuda_tile.load_view_tko" or any(size != 1 for size in op.results[0].type.shape):
        return None
    tiles = load.view.defining_op
    view = source(tiles.operands[0]).defining_op if tiles is not None else None
    if view is None or view.name != "cuda_tile.make_tensor_view":
        return None
    pointer, (*rows, width) = position.get(source(view.operands[0])), view.results[0].type.shape
    is_table = len(rows) == 1 and width != DYNAMIC and tuple(view.results[0].type.strides) == (width, 1)
    row, column = numbers
    if pointer is None or not is_table or row != 0 or column is None or not 0 <= column < width:
        return None
    return Column(pointer, int(width), column, op.results[0])
