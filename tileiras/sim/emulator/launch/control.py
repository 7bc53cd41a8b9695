"""Branches, calls, exits, and other control instructions that compute no value (PTX ISA, "Control Flow")."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from ..memory.accesses import read_generic, read_string
from ..order.waits import suspend
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Function, Group, Label, Symbol, Variable
from ..ptx.program import branch
from ..ptx.types import U32, U64
from .recording import Sleep

if TYPE_CHECKING:
    from .warps import WarpGroup

LONGEST_SLEEP = 1_000_000
"""Nanoseconds (PTX ISA, "nanosleep")."""


def _target(decoder: Decoder, operand: Symbol):
    if not isinstance(operand, Symbol) or not isinstance(operand.target, Label):
        raise decoder.error(f"'{getattr(operand, 'name', operand)}' is not a label of this function")
    return decoder.frame.labels[id(operand.target)]


def _guard_slot(decoder: Decoder, item: Instruction) -> tuple[int, bool] | None:
    if item.guard is None:
        return None
    return decoder.frame.base + item.guard[0].index, not item.guard[1]


@instruction("bra")
def decode_bra(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("uni")
    target = _target(decoder, decoder.operands(1)[0])
    guard = _guard_slot(decoder, item)
    source = decoder.block
    if guard is None:
        decoder.end_block(lambda group: group.goto(target.index))
        source.successors = (target,)
        return
    following = decoder.end_block(None)
    source.terminator = branch(*guard, target, following)
    source.successors = (target, following)


@instruction("brx")
def decode_brx(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("idx")
    modifiers.take("uni")
    index_operand, table = decoder.operands(2)
    if not isinstance(table, Group):
        raise decoder.unsupported("a branch table that is declared after its use")
    targets = [_target(decoder, each) for each in table.items]
    index = decoder.src(index_operand, U32)
    numbers = None

    def terminate(group: WarpGroup) -> None:
        indices = group.R[index]
        active = np.broadcast_to(indices, (group.n,))[group.active()]
        if (active >= len(targets)).any():
            group.fault(f"branch index {int(active.max())} is outside a table of {len(targets)}", item)
        nonlocal numbers
        if numbers is None:  # block numbers are final only after decoding
            numbers = np.array([target.index for target in targets], np.int32)
        group.branch_many(numbers[np.minimum(indices, len(targets) - 1)])

    decoder.block.successors = tuple(targets)
    decoder.end_block(terminate)


@instruction("ret", "exit")
def decode_ret(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("uni")
    decoder.operands(0)
    result_block = decoder.frame.result_block if item.opcode == "ret" else None
    guard = _guard_slot(decoder, item)
    source = decoder.block
    if result_block is not None:
        if guard is None:
            decoder.end_block(lambda group: group.goto(result_block.index))
            source.successors = (result_block,)
        else:
            following = decoder.end_block(None)
            source.terminator = branch(*guard, result_block, following)
            source.successors = (result_block, following)
        return
    if guard is None:
        decoder.end_block(lambda group: group.exit())
        source.successors = ()
        return
    leave = decoder.end_block(None)
    following = decoder.end_block(lambda group: group.exit())
    source.terminator = branch(*guard, leave, following)
    source.successors, leave.successors = (leave, following), ()


@instruction("trap")
def decode_trap(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    decoder.operands(0)
    decoder.emit(lambda group: group.fault("trap", item))


@instruction("nanosleep")
def decode_nanosleep(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """Other threads run before sleeping ones continue. The emulator has no clock: only a recorder receives the
    duration."""
    if not modifiers.take("u32"):
        raise decoder.unsupported()
    (operand,) = decoder.operands(1)
    slot = decoder.src(operand, U32)

    def terminate(group: WarpGroup) -> None:
        if group.launch.recorder is not None:
            _tell_of_sleep(group, item, np.broadcast_to(group.R[slot], (group.n,)))
        woken = iter((False,))  # no thread at once, all threads at the scheduler's first poll
        suspend(group, following.index, item, lambda group, lanes: np.full(lanes.size, next(woken, True)),
                lambda group, thread: ["the end of its sleep"])  # fmt: skip

    following = decoder.end_block(terminate)


def _tell_of_sleep(group: WarpGroup, item: Instruction, lengths: np.ndarray) -> None:
    """A warp sleeps as long as the last of its threads."""
    lanes = group.active_lanes()
    for row, result in enumerate(lengths.reshape(-1, 32)):
        if lanes[row].any():
            longest = min(int(result[lanes[row]].max()), LONGEST_SLEEP)
            group.launch.recorder.operation(group, item, row * 32, Sleep(longest))


@instruction("brkpt", "pmevent", "prefetch", "prefetchu", "applypriority", "discard")
def decode_hint(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """No effect on results: a single kernel runs, without caches or time."""
    modifiers.names.clear()


@instruction("griddepcontrol")
def decode_griddepcontrol(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """No effect: a single kernel runs, without dependences on others."""
    decoder.operands(0)
    if not modifiers.take("launch_dependents", "wait"):
        raise decoder.unsupported()


@instruction("createpolicy")
def decode_createpolicy(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """A cache policy is opaque, and has no effect."""
    modifiers.names.clear()
    nothing = np.zeros(1, np.uint64)
    decoder.put(item.operands[0], U64, lambda R: nothing, raw=True)


@instruction("call")
def decode_call(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("uni")
    operands = list(item.operands)
    results = operands.pop(0).items if isinstance(operands[0], Group) else []
    callee = operands.pop(0)
    arguments = operands.pop(0).items if operands and isinstance(operands[0], Group) else []
    if not isinstance(callee, Symbol):
        raise decoder.unsupported("an indirect call")
    function = decoder.module.functions.get(callee.name)
    if function is None:
        raise decoder.error(f"call of '{callee.name}', which is not declared")
    if function.body is not None:
        if len(arguments) != len(function.params):
            raise decoder.error(f"{function.name} takes {len(function.params)} arguments, {len(arguments)} are given")
        decoder.call(function, results, arguments)
        return
    builtin = _BUILTINS.get(function.name)
    if builtin is None:
        raise decoder.error(f"call of '{function.name}', which has no body in this module")
    builtin(decoder, item, function, results, arguments)


def _argument_slots(decoder: Decoder, function: Function, arguments: list) -> list[int]:
    return [decoder.argument_buffer(formal, actual) for formal, actual in zip(function.params, arguments, strict=True)]


def _pointers(group: WarpGroup, slot: int) -> np.ndarray:
    """The 64-bit values in a parameter buffer, one per thread."""
    return np.broadcast_to(np.ascontiguousarray(group.R[slot][:, :8]).view(np.uint64)[:, 0], (group.n,))


def _vprintf(decoder: Decoder, item: Instruction, function: Function, results: list, arguments: list) -> None:
    """`vprintf(format, buffer)`: the arguments are in the buffer at their natural alignment, floats as f64."""
    slots = _argument_slots(decoder, function, arguments)
    result = None
    if results and isinstance(results[0], Symbol) and isinstance(results[0].target, Variable):
        result = decoder.param_slot(results[0].target)

    def step(group: WarpGroup) -> None:
        formats, buffers = (_pointers(group, slot) for slot in slots)
        for thread in group.active().tolist():
            format_text = read_string(group, item, int(formats[thread]), thread)

            def fetch(offset: int, size: int, thread: int = thread, base: int = int(buffers[thread])) -> bytes:
                return read_generic(group, item, base + offset, size, thread)

            def text_at(address: int, thread: int = thread) -> str:
                return read_string(group, item, address, thread)

            group.launch.output.append(_format(format_text, fetch, text_at))
        if result is not None:
            group.write_buffer(result, 0, np.zeros(1, np.uint32))

    decoder.emit(step)


def _format(text: str, fetch, text_at) -> str:
    """C's printf over an argument buffer, for the conversions that CUDA supports."""
    pieces, offset, at = [], 0, 0

    def take(size: int) -> bytes:
        nonlocal offset
        offset = -(-offset // size) * size
        data = fetch(offset, size)
        offset += size
        return data

    while at < len(text):
        if text[at] != "%":
            pieces.append(text[at])
            at += 1
            continue
        end = at + 1
        while end < len(text) and text[end] in "-+ #0123456789.*lhzjtqL":
            end += 1
        spec, kind = text[at + 1 : end], text[end : end + 1]
        at = end + 1
        if kind == "%":
            pieces.append("%")
            continue
        while "*" in spec:
            spec = spec.replace("*", str(int.from_bytes(take(4), "little", signed=True)), 1)
        wide = "l" in spec or "z" in spec or "j" in spec or "t" in spec or "q" in spec
        flags = spec.strip("lhzjtqL")
        if kind in "di":
            value = int.from_bytes(take(8 if wide else 4), "little", signed=True)
            pieces.append(f"%{flags}d" % value)
        elif kind in "uoxXc":
            value = int.from_bytes(take(8 if wide else 4), "little")
            pieces.append(f"%{flags}{'d' if kind == 'u' else kind}" % (value & 255 if kind == "c" else value))
        elif kind in "fFeEgGaA" and kind:
            value = struct.unpack("<d", take(8))[0]
            pieces.append(value.hex() if kind in "aA" else f"%{flags}{kind}" % value)
        elif kind == "p":
            pieces.append(f"{int.from_bytes(take(8), 'little'):#x}")
        elif kind == "s":
            pieces.append(f"%{flags}s" % text_at(int.from_bytes(take(8), "little")))
        else:
            pieces.append("%" + spec + kind)
    return "".join(pieces)


def _assertfail(decoder: Decoder, item: Instruction, function: Function, results: list, arguments: list) -> None:
    """`__assertfail(message, file, line, function, char size)`."""
    slots = _argument_slots(decoder, function, arguments)

    def step(group: WarpGroup) -> None:
        thread = int(group.active()[0])
        message, file = (read_string(group, item, int(_pointers(group, slots[k])[thread]), thread) for k in (0, 1))
        raw = group.R[slots[2]]
        line = int(np.ascontiguousarray(raw[min(thread, len(raw) - 1), :4]).view(np.uint32)[0])
        group.fault(f"{file}:{line}: assertion failed: {message}", item, thread)

    decoder.emit(step)


#: Alignment of malloc (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation").
_HEAP_ALIGNMENT = 16


def _malloc(decoder: Decoder, item: Instruction, function: Function, results: list, arguments: list) -> None:
    """`malloc(size)`: separate, uninitialised memory for each calling thread."""
    (size,) = _argument_slots(decoder, function, arguments)
    if not results or not isinstance(results[0].target, Variable):
        raise decoder.error("the result of malloc is not kept")
    result = decoder.param_slot(results[0].target)

    def step(group: WarpGroup) -> None:
        addresses = np.zeros(group.n, np.uint64)
        sizes = _pointers(group, size)
        for thread in group.active().tolist():
            name = f"{int(sizes[thread])} bytes from malloc"
            addresses[thread] = group.launch.memory.allocate(int(sizes[thread]), alignment=_HEAP_ALIGNMENT, name=name)
            group.launch.heap.add(int(addresses[thread]))
        group.write_buffer(result, 0, addresses)

    decoder.emit(step)


def _free(decoder: Decoder, item: Instruction, function: Function, results: list, arguments: list) -> None:
    """`free(pointer)`: of a live allocation of malloc; a null pointer is ignored."""
    (slot,) = _argument_slots(decoder, function, arguments)

    def step(group: WarpGroup) -> None:
        pointers = _pointers(group, slot)
        for thread in group.active().tolist():
            address = int(pointers[thread])
            if not address:
                continue
            if address not in group.launch.heap:
                group.fault(f"free of {address:#x}, which is no allocation of malloc", item, thread)
            group.launch.heap.remove(address)
            group.launch.memory.release(address)

    decoder.emit(step)


_BUILTINS = {"vprintf": _vprintf, "__assertfail": _assertfail, "malloc": _malloc, "free": _free}
