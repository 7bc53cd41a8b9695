"""Whether the operands of a dot have the layouts that a warpgroup instruction takes."""

from __future__ import annotations

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import TensorType
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.layout.matrix_descriptor import describe
from tileiras.targets import Fragment, MmaAtom, product_types


def dot_error(op: tileas.DotOp | tileas.AsyncDotOp, atom: MmaAtom) -> str:
    """The error in a dot that warpgroups execute, asynchronous or not; empty if correct."""
    under_way = isinstance(op, tileas.AsyncDotOp)
    a, b = (op.a_tile, op.b_tile) if under_way else (op.a.type, op.b.type)
    c = op.c.type.tile if under_way else op.c.type
    exchanged = op.exchanged is not None
    name = atom.name
    types = product_types(op)
    if (atom.a_type, atom.b_type, atom.c_type) != ((types[1], types[0], types[2]) if exchanged else types):
        return f"atom '{name}' does not multiply {types[0]} and {types[1]} into {types[2]}"
    if c.rank != 2:
        return f"atom '{name}' multiplies matrices, not batches of them"
    if b.shape[0] % atom.shape[2]:
        return f"atom '{name}' is deeper than the {b.shape[0]} columns of A"
    accumulator = layout_of(c)
    seen = accumulator.permute((1, 0)) if exchanged else accumulator
    assert isinstance(atom.c, Fragment), "accumulators are in registers"
    sides = (("A", a, 1), ("B", b, 0))
    (first, rows, along_rows), (second, columns, along_columns) = sides[::-1] if exchanged else sides
    places = _places_of_rows(atom.c, None if is_in_shared(rows) else seen)
    if not _is_repeated(seen, atom.c, places, whole=True):
        return f"the layout of C does not have the fragments of atom '{name}'"
    if not is_in_shared(columns):
        return f"atom '{name}' takes {second} from shared memory"
    if is_in_shared(rows):
        wrong = _shared_error(first, rows, along_rows, atom, isinstance(atom.a, Fragment))
    else:
        wrong = _register_error(first, rows, seen, atom, exchanged, places)
    return wrong or _shared_error(second, columns, along_columns, atom)


def _shared_error(operand: str, type: TensorType, k_axis: int, atom: MmaAtom, in_registers: bool = False) -> str:
    """`in_registers`: whether the atom takes the operand there."""
    result = describe(layout_of(type), k_axis, type.element_type.width)
    if result is None:
        return f"no matrix descriptor describes the layout of {operand}"
    if in_registers:
        return f"atom '{atom.name}' takes {operand} from registers"
    if result.major not in atom.b.majors:  # type: ignore[union-attr]
        return f"K is not contiguous in {operand}, as atom '{atom.name}' takes it"
    return ""


def _register_error(
    operand: str, type: TensorType, accumulator: LinearLayout, atom: MmaAtom, exchanged: bool, places: _Places
) -> str:
    """`accumulator`: the result's layout as the instruction sees it."""
    if not isinstance(atom.a, Fragment):
        return f"atom '{atom.name}' takes {operand} from shared memory"
    layout = layout_of(type).permute((1, 0)) if exchanged else layout_of(type)
    if not _is_repeated(layout, atom.a, places, whole=False):
        return f"the layout of {operand} does not have the fragments of atom '{atom.name}'"
    rows = [accumulator.coordinates(vector)[0] for vector in accumulator.bases("warp")]
    if [layout.coordinates(vector)[0] for vector in layout.bases("warp")] != rows:
        return f"a warp does not have the rows of {operand} that its part of the result takes"
    return ""


_Places = dict[int, int]
"""The row of a tile that each row of an instruction is whose number is a power of two."""


def _places_of_rows(fragment: Fragment, accumulator: LinearLayout | None) -> _Places:
    """Where the rows of a fragment lie in the tile: as a descriptor gives them, or, with A in registers, in any order
    that the accumulator has as well."""
    result = {}
    for dim, own in fragment.bases.items():
        vectors = own if accumulator is None else map(accumulator.coordinates, accumulator.bases(dim))
        result.update({basis[0]: vector[0] for basis, vector in zip(own, vectors) if basis[0]})
    return result


def _is_repeated(layout: LinearLayout, fragment: Fragment, places: _Places, whole: bool) -> bool:
    """Whether a layout is a fragment's, repeated over the tile: the fragment's own bases come first, with its rows in
    their places, and the others are other rows, or multiples of its columns; `whole`: without replicas."""
    occupied = sum(places.values())
    for dim in ("register", "lane", "warp"):
        own = [layout.flatten((places.get(row, 0), column)) for row, column in fragment.bases[dim]]
        bases = layout.bases(dim)
        if list(bases[: len(own)]) != own:
            return False
        for row, column in map(layout.coordinates, bases[len(own) :]):
            if row & occupied or column % fragment.shape[1]:
                return False
    return layout.is_surjective and (layout.is_injective or not whole)
