"""Lower bound of the registers of a thread that the tiles of a kernel or of a loop take; plans are rejected by it.

`expected_registers` estimates the total that ptxas allocates, for choices.  Both are based on `live_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from tileiras.analysis.copied_loads import LOADS, copied_vector
from tileiras.analysis.derivations import uses_through
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, TensorType, UnitAttr, Value
from tileiras.layout.accumulators import is_of_tensor_memory, scaling_of
from tileiras.layout.encoding import layout_of
from tileiras.layout.tensor_memory import SCALED_AT_ONCE
from tileiras.targets import MMA_ATOMS, SCALED_MMA_ATOMS, CopyAtom, find_copy_atom, known_mma_atom

from .limits import registers_for_tiles, threads_of
from .live_values import fragment_words, is_made_at_use, is_read_in_steps, register_tile, sums_of, width_of

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


def words(value: Value) -> int:
    """32-bit registers of a thread's fragment of a tensor; 0 for scalars, truth values and tiles made at their use."""
    type = register_tile(value)
    if type is None:
        return 0
    if width_of(type) == 1 or layout_of(type).registers > 1 and is_made_at_use(value):
        return 0
    count = fragment_words(value)
    return min(count, SCALED_AT_ONCE) if count > SCALED_AT_ONCE and _is_scaled_in_parts(value) else count


def _is_scaled_in_parts(value: Value) -> bool:
    """Whether a tile is an accumulator that an iteration rescales in tensor memory."""
    if not value.has_one_use:
        return False
    (dot,) = value.users
    scaling = scaling_of(dot) if is_of_tensor_memory(dot) else None
    return scaling is not None and scaling[0] is value.defining_op


class LiveRegisters:
    """Registers that the live tiles of blocks take at a time; results are cached per value and operation, so the
    function must not change."""

    __slots__ = ("_count", "_words", "_held", "_inside")

    def __init__(self, count: Callable[[Value], int] = words) -> None:
        """`count(value)` is the number of registers of one value."""
        self._count = count
        self._words: dict[Value, int] = {}
        self._held: dict[Value, int] = {}
        self._inside: dict[Operation, dict[Value, None]] = {}

    def words(self, value: Value) -> int:
        """Registers of a value that is live as a whole."""
        result = self._words.get(value)
        if result is None:
            result = self._words[value] = self._count(value)
        return result

    def words_of(self, value: Value) -> int:
        """Registers of a value from its definition to its last use."""
        result = self._held.get(value)
        if result is None:
            result = self.words(value)
            if result and is_read_in_steps(value):
                result = 0
            self._held[value] = result
        return result

    def used_inside(self, op: Operation) -> dict[Value, None]:
        """The values that the operations in an operation's regions use."""
        entry = self._inside.get(op)
        if entry is None:
            entry = self._inside[op] = {}
            for region in op.regions:
                for inner in region.operations:
                    entry.update(dict.fromkeys(inner.operands))
                    if inner.regions:
                        entry.update(self.used_inside(inner))
        return entry

    def of_block(self, block: Block) -> int:
        """Most registers that the tiles of a block take at a time, those of the blocks in it included."""
        last: dict[Value, Operation] = {}
        for op in block.operations:
            last.update(dict.fromkeys(op.operands, op))
            if op.regions:
                last.update(dict.fromkeys(self.used_inside(op), op))
        ending: dict[Operation, list[Value]] = {}
        for value, op in last.items():
            if value.parent_block is block and self.words(value):
                ending.setdefault(op, []).append(value)
        most = live = sum(self.words(v) for v in block.arguments if v in last)
        for op in block.operations:
            ends = ending.get(op, ())
            if op.regions and isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
                nested = max((self.of_block(b) for region in op.regions for b in region.blocks), default=0)
                inside = self.used_inside(op)
                handed_over = sum(self.words(v) for v in ends if v not in inside)
                most = max(most, live - handed_over + nested)
            for value in ends:
                live -= self.words_of(value)
            for value in op.results:
                live += self.words_of(value)
            beside = live + sums_of(op)
            if beside > most:
                most = beside
        return most

    def of_loop(self, loop: scf.ForOp) -> int:
        """Most registers that tiles take at a time while a loop runs, those included that wait for its end."""
        own = set(_blocks(loop))
        through = (v for v in self.used_inside(loop) if v.parent_block not in own)
        return sum(map(self.words, through)) + self.of_block(loop.body.block)


def registers_behind(op: Operation, loop: scf.ForOp, apart: Collection[Operation] = ()) -> int:
    """Registers of tiles live right after an operation of a loop's body, without the results of operations `apart`."""
    operations = list(loop.body.block.operations)
    later = operations[operations.index(op) + 1 :]
    live = LiveRegisters()
    values = {value for each in later for value in (*each.operands, *live.used_inside(each))}
    result = (value for value in values if value.parent_block is loop.body.block and value.defining_op not in later)
    own = set(_blocks(loop))
    through = (value for value in live.used_inside(loop) if value.parent_block not in own)
    return sum(live.words_of(value) for value in (*result, *through) if value.defining_op not in apart)


def loop_registers(loop: scf.ForOp) -> int:
    """Most registers that tiles take at a time while the loop runs, those included that wait for its end."""
    return LiveRegisters().of_loop(loop)


def tile_registers(func: aa.FuncOp) -> int:
    """Most registers of a thread that the tiles of a kernel take at a time."""
    return block_registers(func.body.blocks[0])


def block_registers(block: Block, apart: Collection[Operation] = ()) -> int:
    """The same for the tiles of a block without live-in tiles, except the results of operations `apart`."""
    return LiveRegisters(lambda value: 0 if value.defining_op in apart else words(value)).of_block(block)


def _blocks(op: Operation) -> Iterator[Block]:
    """The blocks in an operation, and in those in it."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.operations:
                if inner.regions:
                    yield from _blocks(inner)


def _available(func: aa.FuncOp) -> int:
    spec = func.kernel_spec
    return registers_for_tiles(threads_of(func), spec.occupancy or 1)


def lacks(func: aa.FuncOp, more: int) -> bool:
    """Whether a thread has no room for `more` registers beside the tiles that are live at a time."""
    return tile_registers(func) + more > _available(func)


def lacks_registers(func: aa.FuncOp) -> bool:
    """Whether the tiles of a kernel may take more registers at a time than a thread has."""
    return LiveRegisters(_apart).of_block(func.body.blocks[0]) > _available(func)


def _apart(value: Value) -> int:
    """As words(), where each element of 16 bits has a register of its own, as after accesses of single ones."""
    count = words(value)
    apart = count and getattr(value.type.element_type, "width", 64) == 16
    return layout_of(value.type).registers if apart else count


def exceeds(loop: scf.ForOp, func: aa.FuncOp, live: LiveRegisters | None = None) -> int:
    """Registers of a loop beyond those of a thread; negative if some are left."""
    return (live or LiveRegisters()).of_loop(loop) - _available(func)


class MarkShortLoops(FunctionPass):
    """Marks loops with too few registers to keep parts of addresses and conditions beside their tiles.

    The attribute of the loop is `nv_tileas.short_of_registers`, which `tileas-rematerialize` consumes.
    """

    name = "tileas-mark-short-loops"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    needs = "layouts and atoms"
    establishes = "`nv_tileas.short_of_registers` on loops"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        loops = [op for op in func.walk() if isinstance(op, scf.ForOp)]
        # Without asynchronous copies, loads take registers, which are counted only if the loads run ahead.
        atom = find_copy_atom(gpu, "global", "shared", asynchronous=True)
        if not loops or atom is None:
            return
        # Where an agent may copy, the registers that it leaves to the other warps are not known yet.
        for loop in short_loops(func, None if gpu.has("setmaxnreg") else atom):
            loop.attributes[tileas.SHORT_OF_REGISTERS] = UnitAttr()


def short_loops(func: aa.FuncOp, atom: CopyAtom | None) -> list[scf.ForOp]:
    """The loops with too few registers for their tiles and their loop-invariant values: parts of addresses and
    conditions of their loads.  If an inner loop has too few, no registers are left for the invariants of an outer
    one.  Tiles that `atom` copies to shared memory for dots take none."""
    live = LiveRegisters(lambda value: 0 if atom is not None and _is_copied(value, atom) else words(value))
    available = _available(func)
    short: set[Operation | None] = set()
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp)]
    for loop in reversed(loops):  # inner ones first
        if loop not in short:
            own = list(loop.body.block.operations)
            total = sum(map(_unchanging, own))
            beside = max((_beside_tiles(op) for op in own if isinstance(op, tileas.DOTS)), default=0)
            if live.of_loop(loop) + total + beside <= available:
                continue
        short.add(loop)
        if isinstance(loop.parent_op, scf.ForOp):
            short.add(loop.parent_op)
    return [loop for loop in loops if loop in short]


def _is_copied(value: Value, atom: CopyAtom) -> bool:
    """Whether a loaded tile, perhaps under another shape, only goes to dots, through shared memory, and `atom` copies
    it there."""
    load = value.defining_op
    while isinstance(load, tileas.VIEW_LIKE):
        load = load.operands[0].defining_op
    if not isinstance(load, LOADS) or copied_vector(load, atom) is None:
        return False
    users = [user for user, _ in uses_through(load.data, lambda user: isinstance(user, tileas.VIEW_LIKE))]
    converts = (isinstance(user, tileas.ConvertLayoutOp) and is_read_in_steps(user.result) for user in users)
    return bool(users) and all(converts)


def _unchanging(op: Operation) -> int:
    """Registers for the loop-invariant values of a load: a condition for each access, and distances of rows, each of
    which doubles the accesses that are reached."""
    if not isinstance(op, LOADS) or not isinstance(op.data.type, TensorType):
        return 0
    accesses = layout_of(op.data.type).registers // op.atom.vector_size
    return accesses + 2 * (max(1, accesses).bit_length() - 1)


def _beside_tiles(op: tileas.Dot) -> int:
    """Registers that a dot takes beside its result: fragments of two steps, and where each run of K is scaled by
    itself, its scales, and for each element its sum and the two numbers that this is multiplied by."""
    atom = known_mma_atom(op.atom.atom) or SCALED_MMA_ATOMS.get(op.atom.atom)
    if atom is None:
        return 0
    depth = op.a.type.shape[-1]
    registers = 2 * (words(op.a) + words(op.b)) * atom.shape[2] // depth
    if isinstance(op, tileas.BlockScaledMmaOp) and op.atom.atom in MMA_ATOMS:
        scales = sum(layout_of(v.type).registers for v in (op.scale_a, op.scale_b))
        registers += 3 * words(op.result) + 2 * scales * op.block // depth
    return registers
