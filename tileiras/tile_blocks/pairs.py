"""A second kernel for launches whose tile blocks can multiply in pairs.

    func @k(...)        each tile block multiplies by itself: right under every launch
    func @k$pairs(...)  {nv_tileas.pairs_of = "k"}: neighbours along x are a cluster of two, and a pair of CTAs

Where the number along x decides the rows of a dot, neighbours along x have the same columns of B.  As a pair of CTAs
each keeps half of them in its shared memory, whose port bounds such dots, and L2 reads them once.  All `tcgen05`
instructions of a kernel have one `.cta_group` (PTX ISA, "tcgen05"), and the launcher decides about clusters: so the
pairs are a kernel of their own, which launchers that read NAME.json start where the grid is a multiple of two along x.

Where tile blocks find their rows and columns by dividing their number, as those of swizzled grids and of loops over
tiles, neighbours have the same columns in launches with as many rows of tiles: NAME.json says which facts a launch has
to have (`analysis/pair_numbers.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras import analysis
from tileiras.analysis.cluster_uniformity import ClusterUniformity
from tileiras.analysis.function_pass import FunctionPass, functions_of, gpu_of
from tileiras.assignment.packed_operands import bytes_taken_apart
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import ALONE, PAIRS_OF, PAIRS_WHERE
from tileiras.ir import ArrayAttr, StringAttr, Value
from tileiras.reasons import Reason

from .order import may_hand_on

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext

SUFFIX = "$pairs"
"""The suffix of the second kernel's name; `$` may occur in identifiers of PTX, LLVM and MLIR."""

MOST_PRODUCTS = 256 * 256
"""Elements of a tile from which on pairs gain nothing, with which the tensor cores bound a dot and not the port of
shared memory.  By the model of a B200, 4096 cubed, microseconds without pairs and with them: f16, 128x128x64 141.8 and
106.2, 128x256x64 121.9 and 99.3, 256x256x64 99.3 and 99.3; f8, 256x256x128 50.6 and 51.0."""

_RENAMED = (aa.PermuteOp, aa.ViewOp)


class PairTileBlocks(FunctionPass):
    name = "tileas-pair-tile-blocks"
    optional = True
    schedules = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "a kernel NAME$pairs beside each whose tile blocks may multiply in pairs, of others why they do not"
    keeps = "everything else"

    tensor_maps: str = "none"

    def run(self, op: Operation, context: PassContext) -> None:
        if not gpu_of(self.compute_capability).has("tcgen05"):
            return
        for func in list(functions_of(op)):
            if func is op or analysis.function_state.is_nv_tileas(func) or PAIRS_OF in func.attributes:
                continue
            if not dots_of(func):
                continue
            if (func.kernel_spec.num_ctas or 1) > 1:
                continue  # the CTAs of a tile block are the pair
            reason = pair_tile_blocks(func) if self.tensor_maps == "host" else Reason("pairs.no-launcher")
            if reason is not None:
                func.attributes[ALONE] = StringAttr(reason.spelled())


def pair_tile_blocks(func: aa.FuncOp) -> Reason | None:
    """Add the second kernel after a function of nv_tileaa, if all of its dots are of loads in loops, with a B that is
    the same for tile blocks that are neighbours along x.  `tileas-pair-dots` makes its dots those of pairs, or removes
    it again.  Returns the reason if there is no second kernel, or None.

    Tile blocks that may wait for each other by other means stay apart: one of a pair that waits for a lock would keep
    the other one, which may hold it, from its tiles.
    """
    reason = _refusal(func)
    if reason is not None:
        return reason
    name = func.sym_name.value
    paired = func.clone()
    paired.attributes["sym_name"] = StringAttr(name + SUFFIX)
    paired.attributes[PAIRS_OF] = StringAttr(name)
    facts: dict[str, None] = {}
    values = ClusterUniformity(paired, facts)
    for dot in dots_of(paired):
        load = _load_of(dot.b)
        if load is None:
            return Reason("pairs.operand-computed", operand="B")
        if not values.is_reached_together(load):
            return Reason("pairs.trips-differ")
        if not values.is_same(load):
            return Reason("pairs.columns-differ")
    if facts:
        paired.attributes[PAIRS_WHERE] = ArrayAttr(tuple(map(StringAttr, facts)))
    block = func.parent
    assert block is not None, "a function of a module"
    if func.next is None:
        block.append(paired)
    else:
        block.insert_before(paired, func.next)
    return None


def _refusal(func: aa.FuncOp) -> Reason | None:
    """The reason why a function has no second kernel, independent of the data that its tile blocks share."""
    if not any(isinstance(op, aa.GetProgramIdOp) and op.axis.value == "x" for op in func.walk()):
        return Reason("pairs.no-program-id")
    if any(map(may_hand_on, func.walk())):
        return Reason("pairs.blocks-wait")
    dots = dots_of(func)
    if not all(isinstance(dot.parent_op, scf.ForOp) for dot in dots):
        return Reason("pairs.dot-without-loop")
    if not all(_load_of(dot.a) for dot in dots):
        return Reason("pairs.operand-computed", operand="A")
    if any(dot.c.type.num_elements >= MOST_PRODUCTS for dot in dots):
        return Reason("pairs.large-tiles")
    return None


def dots_of(func: aa.FuncOp) -> list[Any]:
    """The dots of a function of nv_tileaa."""
    return [op for op in func.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp))]


def _load_of(value: Value) -> aa.TiledLoadOp | None:
    """The load that gives a tile, perhaps under another shape, or the bytes whose halves are the elements of a tile:
    `tileas-assign-dot-layouts` copies these."""
    op = value.defining_op
    while isinstance(op, _RENAMED):
        value = op.operand
        op = value.defining_op
    halves = bytes_taken_apart(value)
    if halves is not None:
        return _load_of(halves)
    return op if isinstance(op, aa.TiledLoadOp) else None
