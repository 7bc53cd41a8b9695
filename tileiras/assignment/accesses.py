"""Which atom moves the data of each access, how much at once, and in which layout."""

from __future__ import annotations

from collections.abc import Callable

from tileiras import analysis, targets
from tileiras.analysis.alias import data_of
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation, TensorType, element_type_of
from tileiras.ir.pass_manager import PassContext
from tileiras.layout import LinearLayout
from tileiras.layout.accumulators import is_of_tensor_memory
from tileiras.layout.encoding import encode
from tileiras.reasons import Reason
from tileiras.targets import CopyAtom, Target, find_copy_atom

from .anchors import MEMORY_OPS
from .propagation import LayoutAssignment

_READS = (aa.TiledLoadOp, aa.LoadOp)
_WRITES = (aa.TiledStoreOp, aa.StoreOp)


def _atom(op: Operation, target: Target) -> CopyAtom | None:
    """The atom that moves the data of an access; None for updates of single elements whose old values are used."""
    if isinstance(op, _READS):
        return find_copy_atom(target, "global", "register")
    if isinstance(op, aa.AtomicRMWOp) and (op.data.has_uses or not isinstance(op.data.type, TensorType)):
        return None
    if isinstance(op, (*_WRITES, aa.TiledAtomicRMWOp, aa.AtomicRMWOp)):
        return find_copy_atom(target, "register", "global", combines=not isinstance(op, _WRITES))
    return None


_STORES = (*_WRITES, aa.TiledAtomicRMWOp)


class AssignLoadStoreLayouts(FunctionPass):
    name = "tileas-assign-load-store-layouts"
    requires = "DOT_ATOMS"
    leaves = "ATOMS"
    preserves_analyses = True
    needs = "atoms of dots: stored values may keep the layout in which a dot leaves them"
    establishes = "`atom` and `layout` on every access"
    keeps = "types, other operations"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        assign_load_store_layouts(func, gpu, context, self.tensor_maps)


def assign_load_store_layouts(
    func: aa.FuncOp, target: Target, context: PassContext, tensor_maps: str = "none"
) -> None:
    """Give accesses of a function of nv_tileas their `atom`, and those of tiles a `layout`.

    With `tensor_maps` other than `none`, loads that a tensor map can serve are marked.
    """
    engine = context.engine
    accesses = [op for op in func.walk() if isinstance(op, MEMORY_OPS)]
    if not accesses or all(op.attributes.get("atom") or op.attributes.get("layout") for op in accesses):
        return
    assignment = LayoutAssignment.of(func, context)
    for op in accesses:
        layout, vector_size = None, 1
        if isinstance(data_of(op).type, TensorType):
            layout = assignment.store_layout(op) if isinstance(op, _STORES) else assignment.read_layout(op)
            vector_size = assignment.memory.vector_size(op, layout)
            op.attributes["layout"] = encode(layout)
        atom = _atom(op, target)
        if atom is not None:
            op.attributes["atom"] = tileas.CopyAtomAttr(atom.name, vector_size)
        if engine.remarks:
            _remark(op, atom, vector_size, layout, assignment, func.sym_name.value, engine)
    creator = analysis.tensor_map_rules.map_creator(tensor_maps, target)
    if creator != "none" and (tensor_maps != "auto" or any(map(is_of_tensor_memory, func.walk()))):
        tile_accesses = [op for op in accesses if isinstance(op, (*_READS, *_STORES))]
        _choose_tensor_maps(func, tile_accesses, engine, creator == "host", target)


def _choose_tensor_maps(
    func: aa.FuncOp, accesses: list[Operation], engine: DiagnosticEngine, by_host: bool, target: Target
) -> None:
    """Mark the loads, stores and updates that a tensor map can serve; remarks give the reason for the others."""
    facts = DivisibilityAnalysis(func)
    shared = _shared_by_cluster(func, target)
    for op in accesses:
        refusal = analysis.tensor_map_rules.access_refusal(op, facts, by_host)
        if not refusal:
            copies = targets.atoms.bulk_copies
            reads, writes = isinstance(op, _READS), isinstance(op, _WRITES)
            name = copies.BOX_LOAD if reads else copies.BOX_STORE if writes else copies.BOX_REDUCE
            if name == targets.atoms.bulk_copies.BOX_LOAD and shared(op):
                name = targets.atoms.bulk_copies.BOX_MULTICAST
            op.attributes[tileas.AHEAD_ATOM] = tileas.CopyAtomAttr(name, 1)
        elif engine.remarks and isinstance(data_of(op).type, TensorType):
            name = func.sym_name.value
            engine.emit(Remark(Reason("maps.unused", cause=refusal), op.location, function=name))


def _shared_by_cluster(func: aa.FuncOp, target: Target) -> Callable[[Operation], bool]:
    """Predicate of loads that bring the same tiles to all CTAs of a cluster, each of which has a share of the work."""
    copies = targets.atoms.bulk_copies
    if tileas.cluster_size(func) == 1 or not target.meets(copies.BULK_COPY_ATOMS[copies.BOX_MULTICAST].requires):
        return lambda load: False
    of_blocks = tileas.CLUSTER_BLOCKS in func.attributes or tileas.PAIRS_OF in func.attributes
    if not of_blocks and not any(isinstance(op, tileas.GetCtaRankOp) for op in func.walk()):
        return lambda load: False  # one of them does all of it
    values = analysis.cluster_uniformity.ClusterUniformity(func)

    return values.is_shared


UPDATE = "atom.global"


def _remark(
    op: Operation,
    atom: CopyAtom | None,
    vector_size: int,
    layout: LinearLayout | None,
    assignment: LayoutAssignment,
    function: str,
    engine: DiagnosticEngine,
) -> None:
    """Emit a remark: how an operation reaches memory, and the bound on the width of its accesses."""
    type = data_of(op).type
    instruction = UPDATE if atom is None else atom.instruction
    if atom is None:
        vector_size = 1
    bits = max(8, element_type_of(type).width) * vector_size
    arguments = {"Instruction": instruction, "Width": f"{bits // 8} bytes"}
    cause = None
    if layout is not None:
        arguments |= {"Shape": list(type.shape), "Elements per access": vector_size}
        cause = Reason("access.one-element") if atom is None else assignment.memory.why_not_wider(op, layout)
    reason = Reason(
        "access.load" if isinstance(op, _READS) else "access.store" if isinstance(op, _WRITES) else "access.atomic",
        bytes=bits // 8, cause=cause,
    )  # fmt: skip
    engine.emit(Remark(reason, op.location, arguments=arguments, function=function))
