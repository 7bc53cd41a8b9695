"""How many registers of a thread the tiles of a kernel or of a loop take at least: what a plan is rejected by.

What ptxas is likely to take altogether, to choose by, is `expected_registers`.  Both go by `live_values`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tileiras.analysis.copied_loads import LOADS, copied_vector
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, TensorType, Value
from tileiras.layout.encoding import layout_of
from tileiras.targets import MMA_ATOMS, SCALED_MMA_ATOMS, Target, find_copy_atom, known_mma_atom, registers_per_thread

from .limits import LEAST_RESERVE, registers_for_tiles, threads_of
from .live_values import fragment_words, is_made_at_use, is_read_in_steps, register_tile, width_of

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def words(value: Value) -> int:
    """32-bit registers of a thread's fragment of a tensor; 0 for scalars, truth values and what is made at its use."""
    type = register_tile(value)
    if type is None:
        return 0
    if width_of(type) == 1 or layout_of(type).registers > 1 and is_made_at_use(value):
        return 0
    return fragment_words(value)


def loop_registers(loop: scf.ForOp) -> int:
    """Most registers that tiles take at a time while the loop runs, those included that wait for its end."""
    inside = {id(op) for op in loop.walk()}
    used = (v for op in loop.body.block.operations for inner in op.walk() for v in inner.operands)
    through = {v for v in used if _from_outside(v, inside)}
    return sum(map(words, through)) + _most_live(loop.body.block)


def tile_registers(func: aa.FuncOp) -> int:
    """Most registers of a thread that the tiles of a kernel take at a time."""
    return _most_live(func.body.blocks[0])


def _from_outside(value: Value, inside: set[int]) -> bool:
    owner = value.owner
    op = owner.parent_op if isinstance(owner, Block) else owner
    return id(op) not in inside


def _most_live(block: Block, words: Callable[[Value], int] = words) -> int:
    """Most registers that tiles of a block take at a time; `words(value)` those of one."""
    last: dict[Value, Operation] = {}
    for op in block.operations:
        for inner in op.walk():
            for value in inner.operands:
                last[value] = op
    live = sum(words(v) for v in block.arguments if v in last)
    most = live
    for op in block.operations:
        ending = {v for inner in op.walk() for v in inner.operands if last[v] is op and v.parent_block is block}
        nested = max((_most_live(b, words) for region in op.regions for b in region.blocks), default=0)
        if isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
            inside = {v for inner in op.walk() if inner is not op for v in inner.operands}
            handed_over = sum(words(v) for v in ending if v not in inside)
            most = max(most, live - handed_over + nested)
        live -= sum(0 if is_read_in_steps(v) else words(v) for v in ending)
        live += sum(0 if is_read_in_steps(v) else words(v) for v in op.results)
        most = max(most, live)
    return most


def _available(func: aa.FuncOp) -> int:
    spec = func.kernel_spec
    return registers_for_tiles(threads_of(func), spec.occupancy or 1)


def lower_occupancy(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Has fewer CTAs on an SM than a kernel asks for, in place, when its tiles need the registers of more; a remark
    says so."""
    spec = func.kernel_spec
    threads, asked = threads_of(func), spec.occupancy or 1
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)

    def held(value: Value) -> int:
        """As words(), without tiles that are loaded for dots only: these can wait in shared memory."""
        source = value
        while isinstance(source.defining_op, tileas.VIEW_LIKE):
            source = source.defining_op.operand
        load = source.defining_op
        if atom is None or not isinstance(load, LOADS) or copied_vector(load, atom) is None:
            return words(value)
        return 0 if _goes_to_dots(source) else words(value)

    needed = _most_live(func.body.blocks[0], held) + LEAST_RESERVE
    ctas = asked
    while ctas > 1 and registers_per_thread(threads, ctas) < needed:
        ctas -= 1
    if ctas == asked:
        return
    func.attributes["kernel_spec"] = spec.with_occupancy(ctas)
    if engine is not None:
        engine.remark(
            func.location,
            f"{ctas} CTAs to an SM instead of {asked}: a thread needs {needed} registers",
        )


def _goes_to_dots(value: Value) -> bool:
    """Whether a tile is an operand of dots only, perhaps in another layout or under another shape."""
    for user in value.users:
        if isinstance(user, tileas.DOTS):
            if user.operands[2] is value:
                return False
        elif not isinstance(user, (*tileas.VIEW_LIKE, tileas.ConvertLayoutOp)) or not _goes_to_dots(user.results[0]):
            return False
    return True


def lacks(func: aa.FuncOp, more: int) -> bool:
    """Whether a thread has no room for `more` registers beside the tiles that are live at a time."""
    return tile_registers(func) + more > _available(func)


def lacks_registers(func: aa.FuncOp) -> bool:
    """Whether the tiles of a kernel may take more registers at a time than a thread has."""
    return _most_live(func.body.blocks[0], _apart) > _available(func)


def _apart(value: Value) -> int:
    """As words(), where each element of 16 bits has a register of its own, as after accesses of single ones."""
    taken = words(value)
    apart = taken and getattr(value.type.element_type, "width", 64) == 16
    return layout_of(value.type).registers if apart else taken


def exceeds(loop: scf.ForOp, func: aa.FuncOp) -> int:
    """By how many registers a loop is above what a thread has; negative when some are left."""
    return loop_registers(loop) - _available(func)


def is_short(loop: scf.ForOp, func: aa.FuncOp) -> bool:
    """Whether registers are too few for what could be kept through a loop beside its tiles: parts of addresses and
    conditions of its loads.  Where an inner loop has too few, there are none for what an outer one could keep."""
    own = list(loop.body.block.operations)
    if any(is_short(op, func) for op in own if isinstance(op, scf.ForOp)):
        return True
    kept = sum(map(_unchanging, own))
    beside = max((_beside_tiles(op) for op in own if isinstance(op, tileas.DOTS)), default=0)
    return loop_registers(loop) + kept + beside > _available(func)


def _unchanging(op: Operation) -> int:
    """Registers for what a load computes of values from outside of the loop: the distance of a row and a condition for
    each access."""
    if not isinstance(op, LOADS) or not isinstance(op.data.type, TensorType):
        return 0
    return 3 * (layout_of(op.data.type).registers // op.atom.vector_size)


def _beside_tiles(op: tileas.Dot) -> int:
    """Registers that a dot takes beside its result: fragments of two steps, and where each run of K is scaled by
    itself, its scales, and for each element its sum and the two numbers that this is multiplied by."""
    atom = known_mma_atom(op.atom.atom) or SCALED_MMA_ATOMS.get(op.atom.atom)
    if atom is None:
        return 0
    depth = op.a.type.shape[-1]
    taken = 2 * (words(op.a) + words(op.b)) * atom.shape[2] // depth
    if isinstance(op, tileas.BlockScaledMmaOp) and op.atom.atom in MMA_ATOMS:
        scales = sum(layout_of(v.type).registers for v in (op.scale_a, op.scale_b))
        taken += 3 * words(op.result) + 2 * scales * op.block // depth
    return taken
