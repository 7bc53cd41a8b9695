"""Loads whose copies ahead of a loop are boxes of a tensor map, issued by one thread, instead of copies by all
threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileiras.analysis.cluster_uniformity import ClusterUniformity
from tileiras.analysis.copied_loads import moves_with_conversion
from tileiras.analysis.derivations import uses_through
from tileiras.analysis.dots_in_flight import kind_of_readers
from tileiras.analysis.tensor_map_rules import contiguous_dim
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.tensor_maps import TmaDescType
from tileiras.ir import Value
from tileiras.layout.encoding import layout_of
from tileiras.layout.tensor_box import tensor_boxes
from tileiras.reasons import Reason
from tileiras.targets import UNIVERSAL_FMA, CopyAtom
from tileiras.targets.atoms.bulk_copies import BOX_LOAD, BOX_MULTICAST, BULK_COPY_ATOMS
from tileiras.targets.pipe_protocol import PAIR, TENSOR_MEMORY, THREADS

from .staging import StagedLoad

if TYPE_CHECKING:
    from tileiras.dialects import scf

_LARGEST_STAGE = (1 << 20) - 1
"""Bytes that an mbarrier counts in one phase (PTX ISA, "mbarrier": the range of tx-count)."""


def comes_in_boxes(staged: StagedLoad) -> bool:
    """Whether a load is marked as one that boxes can execute."""
    return tileas.AHEAD_ATOM in staged.load.attributes


def box_atom(staged: StagedLoad) -> CopyAtom:
    """The atom of a load that boxes execute."""
    return BULK_COPY_ATOMS[staged.load.attributes[tileas.AHEAD_ATOM].atom]


def box_refusal(staged: StagedLoad, loop: scf.ForOp, by_agent: bool = False) -> Reason | None:
    """Why boxes cannot execute a load that a tensor map can serve ahead of this loop, None if they can; `by_agent`:
    into pipes that live as long as the kernel, as its map has to."""
    producer = staged.load.view.defining_op
    if producer is None or loop.is_ancestor_of(producer) or by_agent and not isinstance(producer.parent_op, aa.FuncOp):
        return Reason("maps.view-in-loop")
    if staged.stage_bytes > _LARGEST_STAGE:
        return Reason("maps.stage-bytes", most=_LARGEST_STAGE, bytes=staged.stage_bytes)
    if consumer_kind(staged) is None:
        return Reason("maps.read-in-two-ways")
    if not by_agent and not isinstance(loop.parent_op, aa.FuncOp) and consumer_kind(staged) in (TENSOR_MEMORY, PAIR):
        return Reason("maps.commits-behind-loop")
    if any(isinstance(op, tileas.DOTS) and op.atom.atom == UNIVERSAL_FMA for op in loop.walk()):
        return Reason("maps.read-by-fma")
    return None if _descriptor(staged, 1) is not None else Reason("maps.no-stage-boxes")


def is_multicast(staged: StagedLoad) -> bool:
    """Whether the CTAs of the cluster each copy a share of a load's boxes to all of them."""
    return comes_in_boxes(staged) and staged.load.attributes[tileas.AHEAD_ATOM].atom == BOX_MULTICAST


def ctas_of(staged: Iterable[StagedLoad]) -> int:
    """The number of CTAs that fill the stages of a pipe of these loads."""
    return max((each.cluster for each in staged if is_multicast(each)), default=1)


def keep_apart(staged: StagedLoad, loop: scf.ForOp, by_agent: bool = False, single: bool = False) -> Reason | None:
    """Make each CTA of the cluster copy the whole tile of a load, which is the same for all, where they cannot share
    its copy; return the reason, or None.  Each of two CTAs that multiply together fills stages of its own.

    `single`: into one stage, which threads refill once they have read it.
    """
    if not is_multicast(staged):
        return None
    refusal = None
    if consumer_kind(staged) != PAIR:
        if not by_agent and not isinstance(loop.parent_op, aa.FuncOp):
            refusal = Reason("maps.alone-nested")
        elif not by_agent and _of_blocks(loop):
            refusal = Reason("maps.alone-without-agent")
        elif single:
            refusal = Reason("maps.alone-single-stage")
        elif _descriptor(staged, staged.cluster) is None:
            refusal = Reason("maps.alone-indivisible", ctas=staged.cluster)
        else:
            return None
    staged.load.attributes[tileas.AHEAD_ATOM] = tileas.CopyAtomAttr(BOX_LOAD, 1)
    return refusal


def _of_blocks(loop: scf.ForOp) -> bool:
    """Whether the CTAs that share boxes are tile blocks of their own."""
    return isinstance(loop.parent_op, aa.FuncOp) and tileas.CLUSTER_BLOCKS in loop.parent_op.attributes


def keep_apart_beside_threads(staged_loads: Iterable[StagedLoad], loop: scf.ForOp, func: aa.FuncOp) -> None:
    """Make each tile block of a cluster copy for itself where their loops end at different iterations and threads copy
    as well: boxes of iterations that only the other tile block executes may lie outside arrays, copies by threads may
    not."""
    staged_loads = list(staged_loads)
    shared = [each for each in staged_loads if is_multicast(each)]
    if not shared or all(map(comes_in_boxes, staged_loads)) or tileas.CLUSTER_BLOCKS not in func.attributes:
        return
    if not ClusterUniformity(func).is_common(loop.upper_bound):
        for each in shared:
            each.load.attributes[tileas.AHEAD_ATOM] = tileas.CopyAtomAttr(BOX_LOAD, 1)


def descriptor_type(staged: StagedLoad) -> TmaDescType | None:
    """The descriptor whose boxes make up a stage of a load; None where no boxes have the layout of the stage."""
    return _descriptor(staged, ctas_of([staged]))


def _descriptor(staged: StagedLoad, parts: int) -> TmaDescType | None:
    tile, view = staged.buffer_type(1).tile, staged.load.view.type
    inner = contiguous_dim(view)
    boxes = None if inner is None else tensor_boxes(layout_of(tile), inner, tile.element_type.width, parts)
    if boxes is None:
        return None
    return TmaDescType(view, boxes.box, boxes.order, boxes.swizzle, boxes.atom, tile.element_type)


def consumer_kind(staged: StagedLoad) -> str | None:
    """How the stages of a load are read, as a pipe's consumer kind; None where they are read in two ways."""
    in_place = [leaf.in_place for leaf in staged.leaves]
    if not any(in_place):
        return THREADS
    converts = {leaf.convert for leaf in staged.leaves}
    if not all(in_place) or not _only_for(staged.load.data, converts):
        return None
    kinds = {kind_of_readers(convert, moves_with_conversion) for convert in converts}
    return kinds.pop() if len(kinds) == 1 else None


def _only_for(value: Value, converts: set[object]) -> bool:
    """Whether only these conversions use a value, possibly through view-like operations."""
    uses = uses_through(value, lambda user: user not in converts and moves_with_conversion(user))
    return all(user in converts for user, _ in uses)
