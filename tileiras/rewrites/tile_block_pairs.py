"""A second kernel for launches whose tile blocks can multiply in pairs.

    func @k(...)        each tile block multiplies by itself: right under every launch
    func @k$pairs(...)  {nv_tileas.pairs_of = "k"}: neighbours along x are a cluster of two, and a pair of CTAs

Of a product whose number along x decides the rows, neighbours along x have the same columns of B.  As a pair of CTAs
each keeps half of them in its shared memory, whose port bounds such products, and L2 gives them once.  All `tcgen05`
instructions of a kernel have one `.cta_group` (PTX ISA, "tcgen05"), and who launches decides what a cluster is: so it
is a kernel of its own, which launchers that read NAME.json start where the grid is a multiple of two along x.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.cluster_uniformity import ClusterUniformity
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import PAIRS_OF
from tileiras.ir import StringAttr, Value

from .tile_block_order import may_hand_on

SUFFIX = "$pairs"
"""Of the second kernel's name; `$` may stand in identifiers of PTX, LLVM and MLIR."""

MOST_PRODUCTS = 256 * 256
"""Elements of a tile from which on pairs gain nothing, with which the tensor cores bound a product and not the port of
shared memory.  By the model of a B200, 4096 cubed, microseconds without pairs and with them: f16, 128x128x64 141.8 and
106.2, 128x256x64 121.9 and 99.3, 256x256x64 99.3 and 99.3; f8, 256x256x128 50.6 and 51.0."""

_RENAMED = (aa.PermuteOp, aa.ViewOp)


def pair_tile_blocks(func: aa.FuncOp, engine: DiagnosticEngine) -> None:
    """Adds the second kernel behind a function of nv_tileaa, where all of its products are of loads in loops, with a B
    that is the same for tile blocks that are neighbours along x.  `tileas-pair-dots` makes its products those of
    pairs, or takes it away again.

    Tile blocks that may wait for each other by other means stay apart: one of a pair that waits for a lock would keep
    the other one, which may hold it, from its tiles.
    """
    if (func.kernel_spec.num_ctas or 1) > 1 or any(map(may_hand_on, func.walk())):
        return
    if not any(isinstance(op, aa.GetProgramIdOp) and op.axis.value == "x" for op in func.walk()):
        return
    dots: list[Any] = [op for op in func.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp))]
    if not dots or not all(isinstance(dot.parent_op, scf.ForOp) and _load_of(dot.a) for dot in dots):
        return
    if any(dot.c.type.num_elements >= MOST_PRODUCTS for dot in dots):
        return
    name = func.sym_name.value
    paired = func.clone()
    paired.attributes["sym_name"] = StringAttr(name + SUFFIX)
    paired.attributes[PAIRS_OF] = StringAttr(name)
    values = ClusterUniformity(paired)
    dots = [op for op in paired.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp))]
    loads = [_load_of(dot.b) for dot in dots]
    if all(load is not None and values.is_same(load) for load in loads):
        block = func.parent
        assert block is not None, "a function of a module"
        if func.next is None:
            block.append(paired)
        else:
            block.insert_before(paired, func.next)


def _load_of(value: Value) -> aa.TiledLoadOp | None:
    """The load that gives a tile, perhaps under another shape."""
    op = value.defining_op
    while isinstance(op, _RENAMED):
        op = op.operand.defining_op
    return op if isinstance(op, aa.TiledLoadOp) else None
