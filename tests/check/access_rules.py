"""Rules about memory: arrays that an entry only reads, updates without any other write, and tensor maps that only
stores use."""

from __future__ import annotations

import re
from typing import Protocol

from tests.check.faults import Fault
from tests.check.flow import Flow

READ_ONLY = "the load reads an array that the program never writes: no barrier orders it"
NO_OTHER_WRITE = (
    'PTX ISA, "Release and Acquire Patterns": they order other operations on memory that threads share, and the entry'
    " has none but reads of arrays that it never writes"
)
ONLY_STORED = (
    'PTX ISA, "Out of Boundary Access": the fill mode is the value of elements that a copy from global memory reads'
    " outside of the tensor; all copies by the map are to global memory"
)
INITIALISED = (
    'PTX ISA, "membar, fence": fence.proxy.async orders an initialisation before the asynchronous proxy; all threads'
    " run it and meet at a barrier before any tcgen05.commit, and only threads of the block signal a barrier otherwise"
)
_ADDRESSES = re.compile(r"(?:mov|add|sub|mul|mad|shl|shr|and|or|cvt|cvta|selp|min|max|shfl|bfe|rem|div)\.")
_WRITES = re.compile(r"(?:st|atom|red|multimem)\.(?!\S*shared)|cp\.async\.bulk\.|cp\.reduce|tensormap\.cp_fenceproxy")


class Definitions(Protocol):
    """The definitions of registers: opcode and operands."""

    definitions: dict[str, list[tuple[str, list[str]]]]


def pointers_of(registers: Definitions, address: str) -> set[int | None]:
    """The parameters that an address is computed of by address arithmetic; None among them for anything else."""
    result, waiting, seen = set[int | None](), re.findall(r"%rd?\d+", address), set[str]()
    while waiting:
        name = waiting.pop()
        every = registers.definitions.get(name, ()) if name not in seen else ()
        for opcode, operands in every:
            parameter = re.search(r"_param_(\d+)\]", operands[0])
            if re.match(r"ld\.global\.[bsu](?:8|16|32)$", opcode):
                continue  # a number below 2^32 in memory is no pointer
            if opcode.startswith("ld.param.b64") and parameter is not None:
                result.add(int(parameter[1]))
            elif not _ADDRESSES.match(opcode) and not opcode.startswith("ld.param"):
                result.add(None)
            waiting += re.findall(r"%rd?\d+", " ".join(operands))
        seen.add(name)
    return result


def _is_read_only(registers: Definitions, code: str, read_only: frozenset[int]) -> bool:
    address = re.search(r"\[(%rd?\d+)", code)
    pointers = pointers_of(registers, address[1]) if address is not None else {None}
    return bool(pointers & read_only) and None not in pointers


def by_access(fault: Fault, original: str, place: int, registers: Definitions, read_only: frozenset[int]) -> str:
    """The rule by which a change at `place` has no effect on memory that is read; empty without one."""
    code = re.sub(r"^@!?%p\d+\s+", "", fault.line).rstrip(";")
    passed = re.sub(r"^moved past (?:@!?%p\d+\s+)?", "", fault.changed).rstrip(";")
    if fault.kind == "order moved" and code.startswith("bar.") and passed.startswith("ld.global"):
        return READ_ONLY if _is_read_only(registers, passed, read_only) else ""
    if fault.kind == "order weakened" and re.match(r"(?:atom|red)\.", code):
        is_scope = re.search(r"\.(?:cta|cluster|gpu|sys)\.", code)[0] not in fault.changed  # type: ignore[index]
        return "" if is_scope or not _is_alone(original, place, code, registers, read_only) else NO_OTHER_WRITE
    if code.startswith("fence.mbarrier_init") and fault.kind in ("order deleted", "order moved"):
        return INITIALISED if _is_initialised_later(original, place) else ""
    if code.startswith("tensormap.replace.tile.fill_mode"):
        return ONLY_STORED if _is_only_stored(_body(original, place), code, registers) else ""
    return ""


def _body(original: str, place: int) -> str:
    return original[original.rfind("\n{\n", 0, place) : original.find("\n}\n", place)]


_OTHER_BLOCKS = re.compile(r"barrier\.cluster|mapa|multicast|\.reqnctapercluster|cp\.async\.bulk\.(?!wait|commit)")
"""Statements by which copies, or another tile block, may signal a barrier."""


def _is_initialised_later(original: str, place: int) -> bool:
    """Whether every `tcgen05.commit` comes behind a fence of all threads between the proxies and their barrier."""
    if _OTHER_BLOCKS.search(original):
        return False
    flow = Flow(original, place)
    fencing = [
        block.number for block in flow.blocks
        if re.search(r"fence\.proxy\.async(\.shared::cta)? (.* )?bar\.sync\b", " ".join(
            f"{each.opcode} " for each in block.statements if not each.guard))
    ]  # fmt: skip
    before, _ = flow.at(place)
    # The initialising block alone, and whole fencing blocks, are on the way to no commit.
    early = {0, before.number} | flow.reachable(0, frozenset(fencing))
    return bool(fencing) and not any(
        each.opcode.startswith("tcgen05.commit") or "tcgen05.commit" in " ".join(each.operands)
        for number in early for each in flow.blocks[number].statements
    )  # fmt: skip


def _is_alone(original: str, place: int, code: str, registers: Definitions, read_only: frozenset[int]) -> bool:
    """Whether an update, whose old value is not used, is the only statement that accesses memory that is written."""
    body = _body(original, place)
    every = re.findall(r"^[ \t]+(?:@!?%p\d+[ \t]+)?([a-z][^;]*);", body, re.MULTILINE)
    if _is_used(original, place, re.findall(r"%r[ds]?\d+", code.partition("[")[0])):
        return False
    writes = [each for each in every if _WRITES.match(each)]
    loads = [each for each in every if re.match(r"ld\.(?!param|shared|local)", each)]
    return writes == [code] and all(_is_read_only(registers, each, read_only) for each in loads)


def _is_used(original: str, place: int, names: list[str]) -> bool:
    """Whether a statement that may come behind that at a place reads one of the registers."""
    flow = Flow(original, place)
    block, statement = flow.at(place)
    behind = set().union(*(flow.reachable(each) for each in block.next))
    later = [each for each in block.statements if each.start > statement.start]
    later += [each for number in behind for each in flow.blocks[number].statements]
    return any(name in each.reads for each in later for name in names)


def _is_only_stored(body: str, code: str, registers: Definitions) -> bool:
    """Whether the map whose field is replaced is copied to a place that only copies to global memory name, and all
    places that other copies name have another map."""
    maps = re.findall(r"tensormap\.cp_fenceproxy\S*\s+\[(%\w+)\], \[(%\w+)\]", body)
    image = _place(registers, code[code.index("[") + 1 : code.index("]")])
    own = {_place(registers, target) for target, source in maps if _place(registers, source) == image}
    other = {_place(registers, target) for target, source in maps if _place(registers, source) != image}
    loads = re.findall(r"cp\.async\.bulk\.tensor\.\dd\.shared\S*\s+\[%\w+\], \[(%\w+),", body)
    return bool(own) and not own & other and all(_place(registers, each) in other for each in loads)


def _place(registers: Definitions, name: str) -> tuple[str, int]:
    """The base of an address, and its constant distance from the base."""
    distance = 0
    while len(every := registers.definitions.get(name, ())) == 1:
        opcode, inputs = every[0]
        if re.match(r"add\.[su](?:32|64)", opcode) and inputs[1].isdigit():
            distance += int(inputs[1])
        elif not re.match(r"cvta\.|cvt\.u(?:32\.u64|64\.u32)|mov\.b", opcode) or len(inputs) != 1:
            break
        name = inputs[0]
    return name, distance
