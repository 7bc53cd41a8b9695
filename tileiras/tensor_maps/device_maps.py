"""Descriptors of views that the kernel builds itself: for launchers that fill no hidden parameters, and for views that
the host cannot describe.

    %d = make_tma_desc %view     ->     %i = map_memory.assemble %view
                                        %d = map_memory.build %i in %slot

Maps of views that the kernel begins with are assembled while it waits for its slot, each by a warp of the CTA; others
where their view is. A map is built at the beginning of the program of the agent that uses it, by the first warp, whose
first thread issues the copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileiras import analysis, resources
from tileiras.analysis.tensor_map_rules import memref_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.tensor_maps import MakeTmaDescOp, TmaDescType
from tileiras.ir import Block, Builder, IntegerAttr, Operation, Region, Value, VerifyError, i32
from tileiras.resources.arena import program_around
from tileiras.targets import Target

if TYPE_CHECKING:
    from tileiras.analysis.pipes import PipeUses


def build_maps(func: aa.FuncOp, target: Target) -> None:
    """Make the kernel build the descriptors of a function of nv_tileas, in place; one for all equal ones of a program.

    Raises VerifyError, located, for a view whose memref is not known.
    """
    operations = [op for op in func.walk() if isinstance(op, MakeTmaDescOp)]
    for op in operations:
        if memref_of(op.view) is None:
            raise VerifyError("expects a view whose memref is known here", location=op.location)
    entry = func.body.blocks[0]
    start = Builder.at_start(entry)
    start.location = operations[0].location
    # As many as there can be until shared memory is assigned, which leaves room for fewer CTAs.
    slots = resources.launch_bounds.map_slots(target, func.kernel_spec.num_warps)
    # The last agent's warp has nothing else to do yet.
    warps = tileas.block_warps(func)
    taker = IntegerAttr(warps - 1, i32) if warps > func.kernel_spec.num_warps else None
    reserve = start.insert(
        tileas.MapReserveOp(maps=IntegerAttr(1, i32), slots=IntegerAttr(slots, i32), warp=taker)
    )
    memory = reserve.results[0]
    first = next(op for op in entry.operations if any(op.is_ancestor_of(each) for each in operations))
    images = _assemble_early(func, operations, first)
    opening = Builder.before(first)
    opening.location = start.location
    opened = opening.insert(tileas.MapOpenOp(memory))
    slot = opened.results[0]
    result: dict[tuple[TmaDescType, Value, Block | None], Value] = {}
    last: dict[Block | None, Operation] = {None: opened}
    for op in operations:
        for program, users in _programs(op).items():
            key = op.result.type, op.view, program
            if key not in result:
                builder = _start_of(program, op, slot, last)
                builder.location = op.location
                image = images.get(key[:2]) or builder.insert(_assemble(op)).results[0]
                number = IntegerAttr(len(result), i32)
                last[program] = builder.insert(
                    tileas.MapBuildOp(image, slot, number=number, result=op.result.type)
                )
                result[key] = last[program].results[0]
            for user in users:
                user.operands = [result[key] if value is op.result else value for value in user.operands]
        op.erase()
    reserve.attributes["maps"] = IntegerAttr(len(result), i32)
    end = Builder.before(_end_of_copies(func))
    end.location = entry.last.location
    end.insert(tileas.MapReleaseOp(memory, slot))


def _assemble_early(
    func: aa.FuncOp, operations: list[MakeTmaDescOp], first: Operation
) -> dict[tuple[TmaDescType, Value], Value]:
    """Assemble the maps of views that are made before the first use of a map: by the threads of different warps, not
    the first one's, which reserves the slot."""
    warps = func.kernel_spec.num_warps
    images: dict[tuple[TmaDescType, Value], Value] = {}
    for op in operations:
        view, key = op.view.defining_op, (op.result.type, op.view)
        if key not in images and view is not None and view.parent is first.parent and view.is_before_in_block(first):
            builder = Builder.before(view.next)
            builder.location = op.location
            warp = IntegerAttr((len(images) + 1) % warps, i32)
            images[key] = builder.insert(_assemble(op, warp)).results[0]
    return images


def _assemble(op: MakeTmaDescOp, warp: IntegerAttr | None = None) -> tileas.MapAssembleOp:
    return tileas.MapAssembleOp(op.view, warp=warp, result=tileas.MapImageType(op.result.type))


def _programs(op: MakeTmaDescOp) -> dict[Block | None, list[Operation]]:
    """The programs in which a descriptor is used, None for the kernel's, each with its users."""
    programs: dict[Block | None, list[Operation]] = {}
    for user in op.result.users:
        programs.setdefault(program_around(user), []).append(user)
    return programs


def _start_of(
    program: Block | None, op: MakeTmaDescOp, slot: Value, last: dict[Block | None, Operation]
) -> Builder:
    """The place where a map is built: as early as a program has the view and the slot's number, after the `last` map
    built at the program's start."""
    view, opened = op.view.defining_op, slot.defining_op
    assert view is not None and opened is not None, "a view whose memref is known is made by an operation"
    if program_around(view) is program and not (view.parent is opened.parent and view.is_before_in_block(opened)):
        return Builder.before(view.next)
    return Builder.after(last[program]) if program in last else Builder.at_start(program)


def _end_of_copies(func: aa.FuncOp) -> Operation:
    """The operation before which the kernel's first thread knows that all copies by maps are complete.

    Its own agent's program ends with such a place if that has waited for every stage that other agents fill, or for
    dots that another agent has executed on them; otherwise the place is after all agents.
    """
    entry = func.body.blocks[0]
    switches = [op for op in entry.operations if op.name == names.AGENT_SWITCH]
    if not switches:
        return entry.last
    (first, *_) = switches[0].regions
    uses = analysis.pipes.PipeUses(func)
    for build in [op for op in func.walk() if isinstance(op, tileas.MapBuildOp)]:
        for user in build.result.users:
            if analysis.pipes.agent_of(user) is first:
                continue
            pipe = analysis.pipes.pipe_of(user.token) if isinstance(user, tileas.TmaLoadOp) else None
            if pipe is None or not _is_seen_by(first, pipe, uses):
                return entry.last
    return first.block.last


def _is_seen_by(first: Region, pipe: Operation, uses: PipeUses) -> bool:
    """Whether an agent waits for every stage of a pipe, or for accumulators of dots of every stage, or for dots that
    have read the operands that it stored."""

    def hands_on(op: Operation) -> bool:
        if op.name == names.CONSUMER_RELEASE:
            source_pipe = analysis.pipes.pipe_of(op.operands[0])
            if source_pipe is None or not analysis.pipes.protocol_of(source_pipe).is_stored:
                return False
            return any(
                user.name == names.PRODUCER_TAIL and analysis.pipes.agent_of(user) is first
                for user in source_pipe.producer.users
            )
        if op.name != names.PRODUCER_COMMIT:
            return False
        accumulators = analysis.pipes.pipe_of(op.operands[0])
        if accumulators is None or not analysis.pipes.protocol_of(accumulators).fills_by_commit:
            return False
        return uses.draining(accumulators) == [first]

    if uses.draining(pipe) == [first]:  # type: ignore[arg-type]
        return True
    waits = [op for op in uses.pipes[pipe] if isinstance(op, analysis.pipes.DRAINS)]  # type: ignore[index]
    return all(any(map(hands_on, _behind(wait))) for wait in waits)


def _behind(op: Operation | None) -> Iterator[Operation]:
    """The operations after one in its block and in those around it."""
    while op is not None:
        yield from _later(op)
        op = op.parent_op


def _later(op: Operation) -> Iterator[Operation]:
    current = op.next
    while current is not None:
        yield current
        current = current.next
