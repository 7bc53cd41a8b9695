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
    a, b = (op.a_tile if under_way else op.a.type), op.b.type
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
    if not _is_repeated(seen, atom.c, whole=True):
        return f"the layout of C does not have the fragments of atom '{name}'"
    for operand, type, k_axis in (("A", a, 1), ("B", b, 0)):
        if is_in_shared(type):
            wrong = _shared_error(operand, type, k_axis, atom)
        else:
            wrong = _register_error(operand, type, accumulator, atom, exchanged)
        if wrong:
            return wrong
    return ""


def _shared_error(operand: str, type: TensorType, k_axis: int, atom: MmaAtom) -> str:
    result = describe(layout_of(type), k_axis, type.element_type.width)
    if result is None:
        return f"no matrix descriptor describes the layout of {operand}"
    if operand == "A" and isinstance(atom.a, Fragment):
        return f"atom '{atom.name}' takes A from registers"
    if result.major not in atom.b.majors:  # type: ignore[union-attr]
        return f"K is not contiguous in {operand}, as atom '{atom.name}' takes it"
    return ""


def _register_error(operand: str, type: TensorType, accumulator: LinearLayout, atom: MmaAtom, exchanged: bool) -> str:
    if operand != "A" or exchanged or not isinstance(atom.a, Fragment):
        return f"atom '{atom.name}' takes {operand} from shared memory"
    layout = layout_of(type)
    if not _is_repeated(layout, atom.a, whole=False):
        return f"the layout of A does not have the fragments of atom '{atom.name}'"
    rows = [accumulator.coordinates(vector)[0] for vector in accumulator.bases("warp")]
    if [layout.coordinates(vector)[0] for vector in layout.bases("warp")] != rows:
        return "a warp does not have the rows of A that its part of the result takes"
    return ""


def _is_repeated(layout: LinearLayout, fragment: Fragment, whole: bool) -> bool:
    """Whether a layout is a fragment's, repeated over the tile: the fragment's own bases come first, and the others are
    multiples of its sizes; `whole`: without replicas."""
    for dim in ("register", "lane", "warp"):
        own = [layout.flatten(basis) for basis in fragment.bases[dim]]
        bases = layout.bases(dim)
        if list(bases[: len(own)]) != own:
            return False
        for vector in bases[len(own) :]:
            if any(at % size for at, size in zip(layout.coordinates(vector), fragment.shape)):
                return False
    return layout.is_surjective and (layout.is_injective or not whole)
