"""State of a function in the stage `tileas`, which is computed from its operations and never stored."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tileiras.analysis.dots_in_flight import is_asynchronous
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, TensorType
from tileiras.layout.scratch import Warps, wants_scratch

WITHOUT_ATOM = (aa.AtomicRMWOp, aa.AtomicCASOp)
"""Accesses to single elements, one instruction each."""

ACCESSES = (aa.TiledLoadOp, aa.TiledStoreOp, aa.TiledAtomicRMWOp, aa.LoadOp, aa.StoreOp, *WITHOUT_ATOM)

KEPT = (aa.FuncOp, aa.ReturnOp, aa.GlobalOp)
"""Operations of nv_tileaa that nv_tileas has as well."""


class State(IntEnum):
    """State of a function; each includes the properties of those before it."""

    TILEAA = 0
    """Operations of nv_tileaa."""
    NO_LAYOUTS = 1
    """Operations of nv_tileas; tiles have no encoding."""
    DOT_ATOMS = 2
    """An atom for every dot, and the layouts of its operands."""
    ATOMS = 3
    """An atom and a layout for every access as well."""
    LAYOUTS = 4
    """An encoding on every tile."""
    SCHEDULED = 5
    """A schedule on every loop."""
    ASYNCHRONOUS = 6
    """Asynchronous dots of warpgroups and into tensor memory, with waits for their results."""
    ALLOCATED = 7
    """A place in shared memory for every buffer, and for every exchange between threads."""
    SYNCHRONIZED = 8
    """All barriers between threads."""
    PLACED = 9
    """Launch bounds: warps, CTAs of a cluster, CTAs on an SM."""

    @property
    def spelled(self) -> str:
        return self.name.lower().replace("_", " ")


LEFT_BY = {
    State.NO_LAYOUTS: "convert-tileaa-to-tileas",
    State.DOT_ATOMS: "tileas-assign-dot-layouts",
    State.ATOMS: "tileas-assign-load-store-layouts",
    State.LAYOUTS: "tileas-remove-layout-conversions",
    State.SCHEDULED: "tileas-generate-schedule",
    State.ASYNCHRONOUS: "tileas-materialize-async",
    State.ALLOCATED: "tileas-optimize-alloc-tensor",
    State.SYNCHRONIZED: "tileas-insert-barriers",
    State.PLACED: "tileas-assign-launch-bounds",
}
"""The pass that brings a function to a state."""


def function_state(func: Operation) -> State:
    """The latest state whose properties all operations of a function have."""
    state = _attribute_state(func)
    for op in func.walk():
        if op is not func and (result := _state_of(op, state)) < state:
            state = result
            if state is State.TILEAA:
                break
    if state >= State.ALLOCATED:
        warps = Warps.of(func, func.target_spec.value)
        if any(wants_scratch(op, warps) for op in func.walk()):
            state = State.ASYNCHRONOUS
    return state


def _attribute_state(func: Operation) -> State:
    """The latest state that the function's own attributes allow."""
    for name, before in _MARKS:
        if tileas.number_of(func, name) is None:
            return before
    return State.PLACED


_MARKS = (
    (tileas.SHARED_MEMORY, State.ASYNCHRONOUS),
    (tileas.NAMED_BARRIERS, State.ALLOCATED),
    (tileas.BLOCK_WARPS, State.SYNCHRONIZED),
)
"""Attributes of functions, in the order in which passes add them, and the state of a function without."""


def is_nv_tileas(func: Operation) -> bool:
    """Whether a function has been converted to nv_tileas, judged by its first operation of either dialect."""
    for op in func.walk():
        if op.dialect == "nv_tileas":
            return True
        if op.dialect == "nv_tileaa" and not isinstance(op, KEPT):
            return False
    return False


def _state_of(op: Operation, most: State) -> State:
    if op.dialect == "nv_tileaa" and not isinstance(op, KEPT):
        return State.TILEAA
    if isinstance(op, tileas.DOTS):
        if op.atom is None:
            return State.NO_LAYOUTS
        if is_asynchronous(op):
            most = min(most, State.SCHEDULED)
    elif isinstance(op, ACCESSES):
        if op.attributes.get("atom") is None and op.attributes.get("layout") is None and _wants_atom(op):
            return State.DOT_ATOMS
    elif isinstance(op, scf.ForOp) and tileas.LOOP_SCHEDULE not in op.attributes:
        most = min(most, State.LAYOUTS)
    elif isinstance(op, tileas.AllocTensorOp) and op.offset is None or _lacks_place(op):
        most = min(most, State.ASYNCHRONOUS)
    if any(area.barrier is None for area in tileas.scratch_areas(op)):
        most = min(most, State.ALLOCATED)
    tensors = (value.type for value in (*op.results, *_arguments(op)) if isinstance(value.type, TensorType))
    return State.ATOMS if any(type.encoding is None for type in tensors) else most


def _lacks_place(op: Operation) -> bool:
    """Whether an operation still needs columns of tensor memory, or shared memory of its own."""
    attribute = _PLACED_BY_NAME.get(op.name)
    return attribute is not None and attribute not in op.attributes


_PLACED_BY_NAME = {
    "nv_tileas.tensor_memory.reserve": "offset", "nv_tileas.tensor_memory.alloc": "column",
    "nv_tileas.map_memory.reserve": "offset", "nv_tileas.map_memory.assemble": "offset",
}  # fmt: skip
"""Operation -> attribute of its place, by name: few kernels load the module of these operations."""


def _wants_atom(op: Operation) -> bool:
    """Whether an access needs an atom; updates of scalars do not, since they have only one instruction."""
    if not isinstance(op, WITHOUT_ATOM):
        return True
    return isinstance(op.value.type, TensorType) and op.value.type.encoding is None


def _arguments(op: Operation) -> list[Any]:
    return [argument for region in op.regions for block in region.blocks for argument in block.arguments]
