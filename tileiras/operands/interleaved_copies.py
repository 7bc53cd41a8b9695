"""Copies of a loop start between the steps of its dot by matrix instructions.

    async.wait                                   async.wait
    if %later: copy %x into %p; copy %y into %q  %s = dot of the first slice of K
    async.commit_group                           if %later: copy %x into %p              {predicated}
    %d = dot %a, %b, %c                      ->  %t = dot of the second and third slice, adding to %s
                                                 if %later: copy %y into %q              {predicated}
                                                 async.commit_group
                                                 %d = dot of the last slice, adding to %t

Instructions of a warp are issued in order.  In front of the dot, the addresses of copies keep the tensor cores idle,
and all copies of a step are written to shared memory while the first fragments are read from there.  A branch around
copies would keep ptxas from moving instructions over it: a predicated one is lowered to copies of no bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.derivations import erase_unused_sources
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith.build import integer
from tileiras.ir import Builder, IntegerAttr, NoMemoryEffect, Operation, UnitAttr, i32
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.layout.staging import part_of
from tileiras.reasons import Reason
from tileiras.resources.large_dots import is_large, is_multiply_add, matrix_instructions
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target, mma_atom

from .dot_k_loops import Dot, Operand, operand_of, release, step_of_dot

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

FEWEST_INSTRUCTIONS = 64
"""Matrix instructions of a warp in an iteration from which its copies are interleaved: with fewer, an SM has several
CTAs, which compute under each other's copies."""

MOST_STEPS = 4
"""Steps of a dot between which copies start: more would be further addresses of operands."""


class InterleaveCopies(FunctionPass):
    name = "tileas-interleave-copies"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    needs = "rings of copies in loops; operands of dots in the buffers in which they will be"
    establishes = "steps of dots by matrix instructions, with the copies of the loop between them, `predicated`"
    keeps = "values, the order of additions, groups of copies"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
            result = _interleave(loop, gpu)
            if result is not None:
                result.rewrite(context.engine)


class _Interleaved(NamedTuple):
    """A loop, the branch with its copies, the operation that closes their group, and its dot, cut into `steps`."""

    loop: scf.ForOp
    branch: Any
    commit: Operation
    dot: Dot
    steps: int

    def rewrite(self, engine: DiagnosticEngine) -> None:
        copies = _copies_of(self.branch)
        # The middle of as many equal parts of the dot, at the end of a step.
        places = [-(-(2 * n + 1) * self.steps // (2 * len(copies))) for n in range(len(copies))]
        op, builder = self.dot.op, Builder.before(self.dot.op)
        builder.location = op.location
        accumulator, zero = op.c, integer(builder, 0)
        for step in range(self.steps):
            number = integer(builder, step)
            accumulator = step_of_dot(self.dot, [None, None], number, accumulator, zero, zero, builder)
            first_copies = [n for n, place in enumerate(places) if place == step + 1]
            for n in first_copies:
                builder.insert(_alone(self.branch, n))
            if first_copies and first_copies[-1] == len(copies) - 1:
                builder.insert(self.commit.detach())
        op.replace_all_uses_with((accumulator,))
        whole = op.operands[:2]
        op.erase()
        for value in whole:
            erase_unused_sources(value, release)
        self.branch.erase()
        # Copies of no bytes write to stages, which other buffers may replace after the loop.
        after = Builder.after(self.loop)
        after.location = self.loop.location
        after.insert(tileas.AsyncWaitOp(pending=IntegerAttr(0, i32), result_token=aa.MemTokenType()))
        if engine.remarks:
            reason = Reason("loops.copies-interleaved", copies=len(copies), steps=self.steps)
            engine.emit(Remark(reason, self.loop.location))


def _interleave(loop: scf.ForOp, target: Target) -> _Interleaved | None:
    """How a loop is rewritten; None for one with other memory operations, or without a dot that is long enough."""
    operations = list(loop.body.block.operations)
    dots: list[Any] = [op for op in operations if isinstance(op, tileas.DOTS)]
    branches = [n for n, op in enumerate(operations) if isinstance(op, scf.IfOp)]
    if len(dots) != 1 or len(branches) != 1 or not isinstance(dots[0], tileas.DotOp):
        return None
    (dot,), (place,) = dots, branches
    branch, commit = operations[place], operations[place + 1]
    if not isinstance(commit, tileas.AsyncCommitGroupOp) or not _copies_of(branch) or commit.parent is not dot.parent:
        return None
    between = operations[place + 2 : operations.index(dot)] if commit.is_before_in_block(dot) else None
    if between is None or not all(isinstance(op, tileas.CopyOp) or op.has_trait(NoMemoryEffect) for op in between):
        return None
    atom = None if is_multiply_add(dot) else mma_atom(dot.atom.atom)
    if atom is None or atom.executor != "warp" or is_large(dot, target):
        return None  # a large dot becomes a loop
    if matrix_instructions(dot, target) < FEWEST_INSTRUCTIONS:
        return None
    return _cut(_Interleaved(loop, branch, commit, Dot(dot, (None, None), 0), 0), atom.shape[2])


def _cut(interleaved: _Interleaved, least: int) -> _Interleaved | None:
    """With the steps of the dot, whose operands are read from stages of rings."""
    dot = interleaved.dot.op
    depth, rank = dot.a.type.shape[-1], dot.a.type.rank
    steps = min(MOST_STEPS, depth // least)
    if steps < 2 or dot.promoted is not None and depth // steps % dot.promoted.value:
        return None
    parts = (part_of(layout_of(v.type), axis, steps, 0) for v, axis in ((dot.a, rank - 1), (dot.b, rank - 2)))
    if any(part is None or part.conditions for part in parts):
        return None
    operands = operand_of(dot.a, rank - 1, dot), operand_of(dot.b, rank - 2, dot)
    if not all(_is_of_ring(each) for each in operands):
        return None
    return interleaved._replace(dot=Dot(dot, operands, depth // steps), steps=steps)


def _is_of_ring(operand: Operand | None) -> bool:
    """Whether an operand is read from a stage of a ring, which holds it for the whole iteration."""
    if operand is None or operand.smem_tile is not None:
        return False
    copy = operand.source.defining_op
    return isinstance(copy, tileas.CopyOp) and copy.buffer.type.stages > 1 and not is_in_shared(copy.result.type)


def _copies_of(branch: Any) -> list[Operation]:
    """The copies that a branch starts; none if it does anything else."""
    if branch.results or branch.else_region.blocks:
        return []
    *inside, _ = branch.then_region.block.operations
    copies = [op for op in inside if isinstance(op, tileas.AsyncTiledLoadOp)]
    return copies if all(op in copies or op.has_trait(NoMemoryEffect) and not op.regions for op in inside) else []


def _alone(branch: Any, number: int) -> Operation:
    """A predicated branch with one of the copies."""
    clone = branch.clone()
    clone.attributes[tileas.PREDICATED] = UnitAttr()
    copies = _copies_of(clone)
    for op in copies[:number] + copies[number + 1 :]:
        op.erase()
    *inside, _ = clone.then_region.block.operations
    for op in reversed(inside):
        if op is not copies[number] and not any(result.has_uses for result in op.results):
            op.erase()
    return clone
