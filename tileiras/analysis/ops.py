"""Cross-operation and target checks of nv_tileas.

Every function is for the GPU of the compilation; every tensor has a layout, for as many warps as the function has; an
atom exists on the GPU, moves the operation's data, and has its fragments in the registers of the right threads; places
in shared memory and barriers are consistent (`places.py`); accesses to shared memory by the asynchronous proxy and by
threads are ordered (`proxy_order.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import analysis, targets
from tileiras.analysis.places import PLACED, Places, launch_error, stage_error
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import CopyAtomAttr, LinearLayoutAttr, MmaAtomAttr, SharedLayoutAttr, names
from tileiras.ir import Operation, TensorType, Value, element_type_of
from tileiras.layout.encoding import layout_of
from tileiras.layout.linear_layout import LinearLayout
from tileiras.layout.reduce import mixes_axes
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import (
    COPY_ATOMS,
    MMA_ATOMS,
    SCALED_MMA_ATOMS,
    UNIVERSAL_FMA,
    Target,
    element_name,
    known_mma_atom,
    product_types,
)
from tileiras.targets.atoms.rows import ELECTED
from tileiras.targets.requirements import spell

from .residence import residence_error, residence_of

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.targets.atoms.rows import Fragment

    from .pipes.model import Unchecked
    from .tensor_operands import TensorPlaces

LANE_BITS = 5
"""A warp has 32 lanes."""

Finding = tuple[Operation, str]


def ops_errors(func: aa.FuncOp, gpu: Target, unchecked: Unchecked | None = None) -> Iterator[Finding]:
    """The errors in a function of nv_tileas, as operations and messages that follow their names.  `unchecked` is called
    for agents with too many orders to check."""
    if func.target_spec.value != gpu.name:
        # Choices made for one GPU may be wrong for another.
        yield func, f"is for {func.target_spec.value}, the compilation for {gpu.name}"
        return
    if func.kernel_spec.num_warps is None:
        yield func, "has no number of warps"
        return
    warps = tileas.block_warps(func)
    # Types and attributes are interned: most operations have types that have been checked before.
    accepted: set[Any] = set()
    accepted_of: dict[int, set[Any]] = {warps: accepted}
    specialized = piped = elsewhere = asynchronous = partitioned = False
    wrong = launch_error(func, gpu)
    if wrong:
        yield func, wrong
    places = Places(func, gpu)
    tensor_places: TensorPlaces | None = None
    for op in func.walk():
        if op.name == names.AGENT_SWITCH:
            specialized = True
        elif op.name == names.CREATE_PIPELINE:
            piped = asynchronous = True
        elif op.name in _OF_ASYNCHRONOUS_PROXY:
            asynchronous = True
        elif op.name == names.CONSUMER_TAIL:
            places.give_back(op.consumer.defining_op.buffers)  # type: ignore[attr-defined]
        partitioned = partitioned or tileas.PARTITION in op.attributes
        elsewhere = elsewhere or any(residence_of(result.type) != "register" for result in op.results)
        here = analysis.agents.agent_warps(op, func) if specialized else warps
        wrong = _types_error(op, here, accepted_of.setdefault(here, set()) if specialized else accepted)
        if not wrong:
            atom = op.attributes.get("atom")
            if atom is None and isinstance(op, _WITH_ATOM):
                wrong = "has no atom"
            elif atom is not None and (type(op), atom) not in accepted:
                wrong = _atom_error(op, atom, gpu)
                if not wrong:
                    accepted.add((type(op), atom))
        if not wrong:
            rule = _RULES.get(type(op)) or _BY_NAME.get(op.name)
            wrong = rule(op) if rule is not None else ""
        if not wrong and elsewhere:
            wrong = residence_error(op)
        if not wrong and type(op) in PLACED:
            wrong = places.error(op, here)
        elif not wrong and op.name.startswith(names.TENSOR_MEMORY):
            tensor_places = tensor_places or analysis.tensor_operands.TensorPlaces(places)
            wrong = tensor_places.error(op, here)
        if wrong:
            yield op, wrong
    if specialized or piped:
        yield from analysis.agents.agent_errors(func, gpu, unchecked)
    if partitioned:
        yield from analysis.partitions.partition_errors(func)
    if asynchronous and tileas.number_of(func, tileas.NAMED_BARRIERS) is not None:
        yield from analysis.proxy_order.order_errors(func)


# ---- layouts ---------------------------------------------------------------------------------------------------------


def _types_error(op: Operation, warps: int, accepted: set[Any]) -> str:
    for result in op.results:
        type = result.type
        if type in accepted or not isinstance(type, TensorType):
            continue
        wrong = _layout_error(type, warps)
        if wrong:
            return wrong
        accepted.add(type)
    layout = op.attributes.get("layout")
    return _threads_error(layout, warps) if isinstance(layout, LinearLayoutAttr) else ""


def _layout_error(type: TensorType, warps: int) -> str:
    if isinstance(type.encoding, SharedLayoutAttr):
        return ""
    if not isinstance(type.encoding, LinearLayoutAttr):
        if residence_of(type) == "tensor":
            return f"makes a tile in tensor memory, where buffers lie: {type}"
        return f"makes a tensor without a layout: {type}"
    return _threads_error(type.encoding, warps)


def _threads_error(layout: LinearLayoutAttr, warps: int) -> str:
    if 1 << len(layout.warp) != warps:
        return f"makes a tensor for {1 << len(layout.warp)} warps in a function of {warps}"
    if len(layout.lane) != LANE_BITS:
        return f"makes a tensor for warps of {1 << len(layout.lane)} lanes"
    if any(any(basis) for basis in layout.block):
        return "makes a tensor that the CTAs of a cluster share, which nothing here takes apart"
    return ""


def _reduction_error(op: tileas.ReduceOp) -> str:
    if mixes_axes(layout_of(op.inputs[0].type), op.dim.value):
        return "a basis of the layout mixes the reduced dimension with another"
    return ""


# ---- atoms -----------------------------------------------------------------------------------------------------------


class _Movement(NamedTuple):
    """The movement required of an operation's atom, and the diagnostic for an atom that moves data otherwise."""

    origin: str
    destination: str
    otherwise: str
    asynchronous: bool = False
    combines: bool = False


_LOADS = "expect a ldgsts, tma_load, ldg or unknown_copy atom type"
_STORES = "expect a stg, tma_store or unknown_copy atom type"

_LOAD = _Movement("global", "register", _LOADS)
_STORE = _Movement("register", "global", _STORES)
_COPY = _Movement("global", "shared", _LOADS, asynchronous=True)

_MOVES: Mapping[type[Operation], _Movement] = {
    tileas.TiledLoadOp: _LOAD,
    tileas.LoadOp: _LOAD,
    tileas.AsyncTiledLoadOp: _COPY,
    tileas.AsyncLoadOp: _COPY,
    tileas.TiledStoreOp: _STORE,
    tileas.StoreOp: _STORE,
    tileas.TiledAtomicRMWOp: _Movement("register", "global", "expect an atom that updates memory", combines=True),
}


_OF_ASYNCHRONOUS_PROXY = names.ASYNC_DOT, names.TENSOR_DOT, names.TMA_STORE
"""Operations that use shared memory through the asynchronous proxy, beside those that fill and drain pipes."""

_WITH_ATOM = (*_MOVES, *tileas.DOTS)


def _atom_error(op: Operation, attribute: CopyAtomAttr | MmaAtomAttr, gpu: Target) -> str:
    name = attribute.atom
    if isinstance(attribute, CopyAtomAttr):
        atom: Any = COPY_ATOMS.get(name)
        if atom is None:
            return _no_such_atom("copy", name)
    elif isinstance(attribute, MmaAtomAttr):
        if name == UNIVERSAL_FMA:
            return ""
        # A plain atom multiplies run by run; its requirements are those for any dot.
        scaled = isinstance(op, tileas.BlockScaledMmaOp) and name not in MMA_ATOMS
        if scaled and gpu.number < 100:
            return "mma block scale is not supported by compute capability < sm100"
        atom = SCALED_MMA_ATOMS.get(name) if scaled else None
        atom = atom or known_mma_atom(name)
        if atom is None:
            return _no_such_atom("mma", name)
    else:
        return ""
    if not gpu.meets(atom.requires):
        return f"unsupported operation for target {gpu.name}: atom '{name}' needs {spell(atom.requires)}"
    return ""


def _no_such_atom(kind: str, name: str) -> str:
    if targets.atoms.described.described(name):
        return f"{kind} atom '{name}' is described, but not generated yet"
    return f"unknown {kind} atom '{name}'"


def _movement_error(op: Operation) -> str:
    """Whether the atom of an access moves data in the required direction and vector size."""
    movement, name = _MOVES[type(op)], op.atom.atom
    atom = COPY_ATOMS[name]
    does = (atom.origin, atom.destination, atom.asynchronous, atom.combines)
    if does != (movement.origin, movement.destination, movement.asynchronous, movement.combines):
        return f"{movement.otherwise}, got {name}"
    element = _moved_element(op)
    # An i1 is a byte in memory, and a single sub-byte element is moved as a byte.
    bits = max(8, element.width) if op.atom.vector_size == 1 or element.width == 1 else element.width
    size = op.atom.vector_size * bits
    if size % 8 or size // 8 not in atom.widths and op.atom.vector_size > 1:
        copy_size = f"{op.atom.vector_size} elements of {element.width} bits"
        return f"moves {copy_size} at once; '{name}' moves {atom.widths} bytes"
    return stage_error(op.buffer, size // 8, "its vectors begin") if movement is _COPY else ""


def _in_place_error(op: Any) -> str:
    """Whether matrix descriptors can address the rows of a tile that dots read in shared memory, in every stage."""
    type = op.result.type
    if not isinstance(type.encoding, SharedLayoutAttr):
        return ""
    period = tileiras.layout.matrix_descriptor.swizzle_period(layout_of(type), type.element_type.width)
    return stage_error(op.buffer, period, "the swizzle of its layout begins")


def _moved_element(op: Operation) -> Any:
    view = getattr(op, "view", None)
    return view.type.element_type if view is not None else element_type_of(op.pointer.type).pointee


# ---- dots ------------------------------------------------------------------------------------------------------------


def _product_error(op: tileas.DotOp) -> str:
    name = op.atom.atom
    if name == UNIVERSAL_FMA:
        scales = _plain_scales(op) if isinstance(op, tileas.BlockScaledMmaOp) else []
        return _threads_agree(op, [*_plain_factors(op), *scales])
    atom = known_mma_atom(name) or SCALED_MMA_ATOMS[name]
    if atom.executor == "warpgroup":
        return analysis.warpgroup_operands.dot_error(op, atom)
    if atom.executor in ELECTED:
        return analysis.tensor_operands.tensor_dot_error(op, atom)
    scaled = name in SCALED_MMA_ATOMS
    a_type, b_type, c_type = product_types(op)
    if (a_type, b_type, c_type) != (atom.a_type, atom.b_type, atom.c_type):
        return f"atom '{name}' does not multiply {a_type} and {b_type} into {c_type}"
    k = op.a.type.shape[-1]
    if k % atom.shape[2]:
        return f"atom '{name}' is deeper than the {k} columns of A"
    if isinstance(op, tileas.BlockScaledMmaOp):
        if scaled and (op.block, element_name(op.scale_a.type.element_type)) != (atom.block, atom.scale_type):
            return f"atom '{name}' takes a scale of {atom.scale_type} for {atom.block} factors"
        if op.block % atom.shape[2] and not scaled:
            return f"atom '{name}' is deeper than the runs of {op.block} factors"
    sides = [_Side("A", op.a, -1, atom.a, atom.shape[2]), _Side("B", op.b, -2, atom.b, atom.shape[2])]
    if scaled:
        runs = atom.shape[2] // atom.block
        sides += [_Side("A's scales", op.scale_a, -1, atom.scale_a, runs)]
        sides += [_Side("B's scales", op.scale_b, -2, atom.scale_b, runs)]
    elif isinstance(op, tileas.BlockScaledMmaOp):
        sides += _plain_scales(op)
    for side in (_Side("C", op.c, 0, atom.c), *sides):
        if side.fragment is not None and not _holds_fragments(layout_of(side.value.type), side.fragment):
            return f"the layout of {side.operand} does not have the fragments of atom '{name}'"
    if not _made_of_fragments(layout_of(op.c.type), atom.c):
        return f"the layout of C has more than fragments of atom '{name}', or has them twice"
    return _threads_agree(op, sides, atom.shape[:2])


def _made_of_fragments(layout: LinearLayout, fragment: Fragment) -> bool:
    """Whether every register belongs to exactly one fragment, since each is the result of one instruction."""
    registers = layout.bases("register")
    rank = gf2.rank(registers)
    own = [layout.flatten(_inside(basis, layout)) for basis in fragment.bases["register"]]
    own_rank = gf2.rank(own)
    for vector in registers:
        *lead, row, column = layout.coordinates(vector)
        inner = (row % fragment.shape[0], column % fragment.shape[1])
        corner = layout.flatten((*lead, row - inner[0], column - inner[1]))
        own_part = layout.flatten(_inside(inner, layout))
        if gf2.rank([*registers, corner]) != rank or gf2.rank([*own, own_part]) != own_rank:
            return False
    return rank == len(registers)


def _inside(place: Sequence[int], layout: LinearLayout) -> tuple[int, ...]:
    """The place in the tile of a place in a fragment, which wraps if the tile is smaller."""
    inside = all(at < n for at, n in zip(place, layout.shape[-2:]))
    return (0,) * (len(layout.shape) - 2) + (tuple(place) if inside else (0, 0))


class _Side(NamedTuple):
    """An operand of a dot, or its scales: the dimension along K, and the instruction's fragment with its depth; without
    a fragment, a thread holds all elements along K."""

    operand: str
    value: Value
    along_k: int
    fragment: Any = None
    depth: int = 1


def _plain_factors(op: tileas.DotOp) -> list[_Side]:
    return [_Side("A", op.a, -1), _Side("B", op.b, -2)]


def _plain_scales(op: tileas.BlockScaledMmaOp) -> list[_Side]:
    return [_Side("A's scales", op.scale_a, -1), _Side("B's scales", op.scale_b, -2)]


def _holds_fragments(layout: LinearLayout, fragment: Fragment) -> bool:
    """Whether each lane has its part of every fragment in its registers; a tile smaller than a fragment wraps."""

    def wrapped(basis: Sequence[int]) -> int:
        return layout.flatten(_inside(basis, layout))

    if tuple(map(wrapped, fragment.bases["lane"])) != layout.bases("lane"):
        return False
    registers = layout.bases("register")
    rank = gf2.rank(registers)
    # Other registers repeat the fragment; each of its own bits has to be in a register.
    return gf2.rank([*registers, *map(wrapped, fragment.bases["register"])]) == rank


def _threads_agree(op: tileas.DotOp, sides: Sequence[_Side], unit: tuple[int, int] = (1, 1)) -> str:
    """Whether a thread has the rows of A and the columns of B, along K, that its part of the result requires.

    For an instruction, which covers `unit` rows and columns, the check of its fragments covers the lanes.
    """
    c = layout_of(op.c.type)
    for side in sides:
        layout = layout_of(side.value.type)
        steps = (1, 1) if side.fragment is None else unit

        def image(vector: int, side: _Side = side, layout: LinearLayout = layout, steps: Sequence[int] = steps) -> int:
            at = list(c.coordinates(vector))
            at[-2] -= at[-2] % steps[0]
            at[-1] -= at[-1] % steps[1]
            at[side.along_k] = 0
            return layout.flatten([x % n for x, n in zip(at, layout.shape)])

        dims = ("lane", "warp") if side.fragment is None else ("warp",)
        rows = [image(v) for v in c.bases("register")]
        depth, shift = layout.shape[side.along_k], layout.dim_shift(len(layout.shape) + side.along_k)
        rows += [1 << shift + bit for bit in range(depth.bit_length() - 1) if 1 << bit >= side.depth]
        registers = layout.bases("register")
        agree = all(tuple(map(image, c.bases(dim))) == layout.bases(dim) for dim in dims)
        if not agree or gf2.rank([*registers, *rows]) != gf2.rank(registers):
            return f"the threads lack elements of {side.operand} for their part of the result"
    return ""


_RULES: Mapping[type[Operation], Callable[[Any], str]] = {
    **dict.fromkeys(_MOVES, _movement_error),
    tileas.DotOp: _product_error,
    tileas.BlockScaledMmaOp: _product_error,
    tileas.ReduceOp: _reduction_error,
    tileas.CopyOp: _in_place_error,
}


def _boxes_error(op: Any) -> str:
    return analysis.pipes.errors.stages_of_boxes_error(op.desc.type, op.buffer)


_BY_NAME: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys((names.ASYNC_DOT, names.TENSOR_DOT), _product_error),
    names.TMA_STORE: _boxes_error,
}
"""Rules of operations whose modules few kernels load."""
