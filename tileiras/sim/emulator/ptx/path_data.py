"""Instructions that decide nothing about the path of an entry: a recording of its path does without their results.

A register decides if an instruction with an effect reads it as anything but data: as an address, a guard, the operand
of a branch, a barrier or a copy. Registers from which it is computed decide as well. Data that is stored decides if a
load of the same memory has a register that does; dots are never computed for a recording (`emulate`, ``multiply``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .module import Address, Function, Group, Immediate, Instruction, Negated, Register, Symbol

_COMPUTING = frozenset((
    "abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cvt", "div", "dp2a",
    "dp4a", "ex2", "fma", "lg2", "lop3", "mad", "mad24", "max", "min", "mov", "mul", "mul24", "neg", "not", "or",
    "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt",
    "sub", "szext", "tanh", "testp", "xor",
))  # fmt: skip
"""Opcodes of instructions that only write their first operand."""
_MEMORIES = {
    "global": ("global",), "shared": ("shared",), "local": ("local",), "param": (), "const": (),
    "generic": ("global", "shared", "local"), "tensor": ("tensor",),
}  # fmt: skip
"""State space of an access -> the memories whose contents entries may change there."""


_COPIES = frozenset(("cp", "async", policy) for policy in ("ca", "cg"))
"""Copies of threads, which write shared memory and nothing else."""


class _Flow(NamedTuple):
    """``targets`` are computed from ``sources`` and the contents of the memories ``reads``; ``data`` goes to the
    memories ``writes``; ``conditions`` decide in any case."""

    targets: list[int]
    sources: list[int]
    conditions: list[int]
    reads: tuple[str, ...] = ()
    data: Sequence[int] = ()
    writes: tuple[str, ...] = ()


def _registers(*operands: object) -> Iterator[int]:
    """The numbers of the registers of operands."""
    for each in operands:
        if isinstance(each, Register):
            yield each.index
        elif isinstance(each, Group):
            yield from _registers(*each.items)
        elif isinstance(each, Address):
            yield from _registers(each.base)
        elif isinstance(each, Negated):
            yield from _registers(each.operand)


def computes(item: Instruction) -> bool:
    """Whether an instruction does nothing but write its first operand."""
    # Carries are a register that no operand names.
    return item.opcode in _COMPUTING and "cc" not in item.modifiers


def _memories(item: Instruction) -> tuple[str, ...]:
    heads = (name.partition("::")[0] for name in item.modifiers)
    return _MEMORIES[next((head for head in heads if head in _MEMORIES), "generic")]


def _flow(item: Instruction) -> _Flow:
    kind, operands = (item.opcode, *item.modifiers[:1]), item.operands
    guard = [] if item.guard is None else [item.guard[0].index]
    first = list(_registers(*operands[:1]))
    if computes(item):
        return _Flow(first, [*_registers(*operands[1:]), *guard], [])
    if item.opcode in ("shfl", "movmatrix"):
        return _Flow(first, list(_registers(*operands[1:2])), [*_registers(*operands[2:]), *guard])
    if item.opcode in ("ld", "ldu", "ldmatrix") or kind == ("tcgen05", "ld"):
        memories = {"ldmatrix": _MEMORIES["shared"], "tcgen05": _MEMORIES["tensor"]}.get(item.opcode) or _memories(item)
        return _Flow(first, [], [*_registers(*operands[1:]), *guard], memories)
    if (item.opcode in ("st", "stmatrix") and kind[1:] not in (("async",), ("bulk",), ("param",))
            or kind == ("tcgen05", "st")):  # fmt: skip
        memories = {"stmatrix": _MEMORIES["shared"], "tcgen05": _MEMORIES["tensor"]}.get(item.opcode) or _memories(item)
        conditions = [*first, *_registers(*operands[2:]), *guard]
        return _Flow([], [], conditions, (), list(_registers(*operands[1:2])), memories)
    if item.opcode == "mma" or kind == ("wgmma", "mma_async") and isinstance(operands[0], Group):
        tiles = [each for each in operands[1:] if isinstance(each, Group)]
        others = (each for each in operands[1:] if not isinstance(each, Group))
        return _Flow(first, list(_registers(*tiles)), [*_registers(*others), *guard])
    return _Flow([], [], [*_registers(*operands), *guard])


def _place(operand: object, definitions: dict[int, list[Instruction]]) -> tuple[str, int] | None:
    """The variable of a constant address, and the offset from it."""
    if isinstance(operand, Address):
        place = _place(operand.base, definitions)
        return None if place is None else (place[0], place[1] + operand.offset)
    if isinstance(operand, Symbol):
        return operand.name, operand.offset
    if not isinstance(operand, Register) or len(definitions.get(operand.index, ())) != 1:
        return None
    (item,) = definitions[operand.index]
    _, source, *more = item.operands
    if item.guard is None and item.opcode in ("cvt", "mov"):
        return _place(source, definitions)
    if item.guard is None and item.opcode == "add" and isinstance(more[0], Immediate):
        place = _place(source, definitions)
        return None if place is None else (place[0], place[1] + int(more[0].value))
    return None


def without_effect(entry: Function) -> frozenset[int]:
    """The ids of the instructions of an entry whose results no path, address or operation depends on: computations,
    loads, and copies of threads to shared memory."""
    body = entry.body or ()
    if any(item.opcode == "call" for item in body):
        return frozenset()
    definitions: dict[int, list[Instruction]] = {}
    flows = []
    for item in body:
        flow = _flow(item)
        for register in flow.targets:
            definitions.setdefault(register, []).append(item)
        flows.append((item, flow))
    # The address of tensor memory comes from shared memory, where no thread has stored it.
    allocations = {_place(item.operands[0], definitions) for item in body
                   if (item.opcode, *item.modifiers[:1]) == ("tcgen05", "alloc")} - {None}  # fmt: skip
    flows = [
        (item, flow._replace(reads=()) if flow.reads and _place(item.operands[1], definitions) in allocations else flow)
        for item, flow in reversed(flows)
    ]
    copies = any(item.opcode == "cp" for item in body)
    deciding = {register for _, flow in flows for register in flow.conditions}
    memories: set[str] = set()
    size = -1
    while size != len(deciding) + len(memories):
        size = len(deciding) + len(memories)
        for _, flow in flows:
            if not deciding.isdisjoint(flow.targets):
                deciding.update(flow.sources)
                memories.update(flow.reads)
            if not memories.isdisjoint(flow.writes):
                deciding.update(flow.data)
        if "tensor" in memories:
            memories.add("shared")
        if copies and not memories.isdisjoint(("global", "shared")):
            memories.update(("global", "shared"))
    # Moves of accumulators in flight give these another name.
    computing = _COMPUTING - {"mov"} if any(item.opcode == "wgmma" for item in body) else _COMPUTING
    idle = {
        id(item) for item, flow in flows
        if (item.opcode in computing and computes(item) or item.opcode in ("ld", "ldmatrix"))
        and deciding.isdisjoint(flow.targets)
    }  # fmt: skip
    if "shared" not in memories:
        idle.update(id(item) for item in body if (item.opcode, *item.modifiers[:2]) in _COPIES)
    return frozenset(idle)
