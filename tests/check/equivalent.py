"""Proofs that a changed statement is the same: bounds and known low bits of integer registers.

The rules are those of the PTX ISA: "%tid" is below "%ntid", which has at most 1024; "%laneid" is below 32; a cluster
has at most 16 CTAs; "%nctaid" and "%nclusterid" are below 2^31, or 2^16 along y and z ("Special Registers"); `shr.u`
fills with zeros, `and` keeps no bit that an operand lacks; signed and unsigned forms of `setp`, `min`, `max`, `cvt`,
`mul.wide`, `div`, `rem` and `shr` agree on numbers whose sign bit is zero.  A register with several definitions has the
bounds of all; one that is counted in a loop is unbounded here, and bounded by `counters` for the solver.
"""

from __future__ import annotations

import re

from tests.check.access_rules import by_access
from tests.check.faults import ORDERS, Fault
from tests.check.flow import GRID
from tests.check.solved import solved
from tests.check.undefined import NOTHING, Undefined
from tileiras.check.facts import Facts

_SHARED = (1 << 18) - 1
"""The largest address of shared memory: "matrix-descriptor-encode" of the PTX ISA keeps 18 bits of one."""
_SPECIAL = {"%tid.x": 1023, "%laneid": 31, "%cluster_ctarank": 15, **GRID}
_SOLVED = ("mask bound", "type", "trip count", "number", "swizzle", "predicate", "order weakened")
"""Kinds that change one integer result, the threads that execute a statement, or those of a barrier."""
_TX_COUNT = (
    'PTX ISA, "tx-count operation": the count may be from -(2^20-1) to 2^20-1; "Phase Completion": a phase ends only'
    " without pending arrivals, and the moved statement is one"
)
_GROUPS = 'PTX ISA, "cp.async.commit_group": it groups the prior cp.async of its thread, and orders nothing else'
_NEXT_GROUP = (
    'PTX ISA, "cp.async.commit_group": the next one of the thread takes all copies that no group has, and all waits are'
    " for all groups"
)
_ONE_WARP = (
    'PTX ISA, "bar.warp.sync": it "guarantees memory ordering among threads participating", which are all of a block of'
    " one warp"
)
_LANE_ZERO = (
    'PTX ISA, "Tensor Memory Addressing": the upper half of an address is a lane, 0 for the columns of "tcgen05.alloc",'
    " which have all lanes"
)
_OF_ONE_WARP = re.compile(r"^\.reqntid (?:[1-9]|[12]\d|3[0-2])\s*$", re.MULTILINE)
_FREE = 64
"""Low bits that are known to be zero of a number without any other."""


class Registers:
    """Facts about the integer registers of one entry, with the assumptions on its parameters."""

    def __init__(self, ptx: str, facts: Facts) -> None:
        self.divisors = {each.position: each.divisor for each in facts.parameters}
        self.natural = {each.position for each in facts.parameters if each.low is not None and each.low >= 0}
        """Parameters that the program assumes not to be negative."""
        self.definitions: dict[str, list[tuple[str, list[str]]]] = {}
        self.alignments = {
            match[2]: int(match[1]).bit_length() - 1
            for match in re.finditer(r"\.shared \.align (\d+) \.b8 (\w+)", ptx)
        }  # fmt: skip
        self._every: list[tuple[str, list[str]]] = []
        for match in re.finditer(r"^[ \t]+(?:@!?%p\d+[ \t]+)?([a-z][\w.:]*)[ \t]+([^;]*);", ptx, re.MULTILINE):
            opcode, (result, *operands) = match[1], [each.strip() for each in re.split(r",(?![^{\[]*[}\]])", match[2])]
            if result.startswith("["):  # an address: the statement has no result in a register
                self._every.append((opcode, [result, *operands]))
                continue
            self._every.append((opcode, operands))
            for name in re.findall(r"%r[sd]?\d+", result):
                # Of several results of one statement nothing is known.
                self.definitions.setdefault(name, []).append((opcode if result == name else "?", operands))

    def origin(self, operand: str) -> str:
        """The special register or the place of the parameter that a register is a copy of, or the operand itself."""
        while len(every := self.definitions.get(operand, ())) == 1:
            opcode, inputs = every[0]
            if not re.match(r"mov\.|cvt\.[us]64\.u32|cvt\.u32\.u64|ld\.param\.b(?:32|64)", opcode) or len(inputs) != 1:
                break
            operand = inputs[0]
        return operand

    def uses(self, register: str) -> list[tuple[str, list[str]]]:
        """The statements that read a register."""
        name = re.compile(rf"{re.escape(register)}\b")
        return [(opcode, operands) for opcode, operands in self._every if any(name.search(each) for each in operands)]

    def most(self, operand: str, seen: frozenset[str] = frozenset()) -> int | None:
        """The largest value as an unsigned number; None where nothing is known."""
        if operand in _SPECIAL:
            return _SPECIAL[operand]
        if re.fullmatch(r"\d+", operand):
            return int(operand)
        if operand in self.alignments:
            return _SHARED
        if operand in seen or operand not in self.definitions:
            return None
        every = [self._most(opcode, inputs, seen | {operand}) for opcode, inputs in self.definitions[operand]]
        return None if None in every else max(each for each in every if each is not None)

    def _most(self, opcode: str, inputs: list[str], seen: frozenset[str]) -> int | None:
        name, width = opcode.partition(".")[0], 64 if "64" in opcode else 32
        ends = [self.most(each, seen) for each in inputs]
        first, last = (ends[0], ends[-1]) if ends else (None, None)
        if name == "and":
            return min((each for each in ends if each is not None), default=None)
        if name == "shr" and ".s" not in opcode and inputs[1].isdigit():
            return (first if first is not None else (1 << width) - 1) >> int(inputs[1])
        if name == "rem" and ".u" in opcode and last:
            return last - 1
        if name in ("mov", "cvt") and first is not None and first < 1 << 31:
            return first
        if name == "shfl":
            return first  # the register of another lane, which has the same bounds
        parameter = re.search(r"_param_(\d+)\]", inputs[0]) if opcode.startswith("ld.param.b32") else None
        if parameter is not None and int(parameter[1]) in self.natural:
            return (1 << 31) - 1
        if name == "max" and ".s" in opcode and any(each is not None and each < 1 << width - 1 for each in ends):
            return (1 << width - 1) - 1
        if name == "min" and None not in ends:
            return min(each for each in ends if each is not None)
        if name == "selp":
            ends = ends[:2]
        if None in ends or not ends:
            return None
        known = [each for each in ends if each is not None]
        value = {
            "add": sum(known), "or": (1 << max(known).bit_length()) - 1, "xor": (1 << max(known).bit_length()) - 1,
            "mul": known[0] * known[-1], "shl": known[0] << min(known[-1], 64),
            "mad": known[0] * known[1 % len(known)] + known[-1], "selp": max(known[:2]),
        }.get(name)  # fmt: skip
        return value if value is not None and value < 1 << width - 1 else None

    def zeros(self, operand: str, seen: frozenset[str] = frozenset()) -> int:
        """How many low bits are known to be zero; a definition by itself adds nothing to the others."""
        if re.fullmatch(r"-?\d+", operand):
            number = int(operand)
            return (number & -number).bit_length() - 1 if number else _FREE
        if operand in seen:
            return _FREE
        if operand not in self.definitions:
            return 0
        return min(self._zeros(opcode, inputs, seen | {operand}) for opcode, inputs in self.definitions[operand])

    def _zeros(self, opcode: str, inputs: list[str], seen: frozenset[str]) -> int:
        name = opcode.partition(".")[0]
        parameter = re.search(r"_param_(\d+)\]", inputs[0]) if opcode.startswith("ld.param") and inputs else None
        if parameter is not None:
            divisor = self.divisors.get(int(parameter[1]), 1)
            return (divisor & -divisor).bit_length() - 1
        if not inputs or "hi" in opcode:
            return 0
        bits = [self.zeros(each, seen) for each in inputs]
        if name in ("add", "sub", "or", "xor", "selp", "min", "max"):
            return min(bits[:2])
        if name == "shl":
            return min(bits[0] + int(inputs[1]), _FREE) if inputs[1].isdigit() else bits[0]
        if name in ("mul", "mad"):
            return min(bits[0] + bits[1], *bits[2:], _FREE)
        if name == "mov" and inputs[0] in self.alignments:
            return self.alignments[inputs[0]]
        return max(bits) if name == "and" else bits[0] if name in ("mov", "cvt", "neg") else 0


def place_of(fault: Fault, original: str) -> int:
    """Where the code of the changed statement begins in the original text."""
    first = next((n for n, (a, b) in enumerate(zip(original, fault.ptx)) if a != b), 0)
    start = original.rfind("\n", 0, first) + 1
    head = re.match(r"[ \t]*(?:@!?%p\d+[ \t]+)?", original[start:])
    return start + (head.end() if head is not None else 0)


def proof(fault: Fault, original: str, facts: Facts, undefined: Undefined = NOTHING) -> str:
    """The rule by which the changed statement has the effect of the original; empty without one."""
    return by_rule(fault, original, facts, undefined) or (
        solved(fault, original, place_of(fault, original), facts, undefined) if fault.kind in _SOLVED else ""
    )


def by_rule(fault: Fault, original: str, facts: Facts, undefined: Undefined = NOTHING) -> str:
    """The same, without a solver."""
    code = re.sub(r"^@!?%p\d+\s+", "", fault.line).rstrip(";")
    opcode, rest = (*re.split(r"\s+", code, maxsplit=1), "")[:2]
    result, *inputs = [each.strip() for each in rest.split(",")]
    registers = Registers(original, facts)
    is_moved = fault.kind == "order moved"
    passed = fault.changed.removeprefix("moved past ").rstrip(";")
    if is_moved and code == "cp.async.commit_group" and " cp.async" not in f" {passed}":
        return _GROUPS
    if is_moved and passed == "cp.async.commit_group" and code.startswith("bar.") and _are_beside(original, fault):
        return _GROUPS
    if fault.kind == "order deleted" and code == "cp.async.commit_group" and _joins_next_group(original, fault):
        return _NEXT_GROUP
    if is_moved and code.startswith("mbarrier.arrive.expect_tx") and "past cp.async.bulk" in fault.changed:
        return _TX_COUNT
    if fault.changed.startswith("ld.shared.b16") and _is_written_by_alloc(registers, original, inputs[-1]):
        return _LANE_ZERO
    if fault.changed == "bar.warp.sync -1" and _OF_ONE_WARP.search(original):
        return _ONE_WARP
    if fault.kind == "type" and re.search(r"\.[su](?:32|64)", opcode) and inputs:
        limit = 1 << (63 if re.search(r"\.[su]64$", opcode) else 31)
        ends = [registers.most(each) for each in inputs]
        if all(each is not None and each < limit for each in ends):
            return f"operands are at most {ends}, by the PTX ISA and the program's assumptions: their sign is zero"
    if fault.kind in ("mask bound", "trip count") and len(inputs) == 2 and fault.changed.startswith("setp"):
        if not re.search(r"\.f(?:32|64|16)", opcode) and fault.changed.endswith(rest):
            return _never_equal(registers, inputs, undefined)
    if why := by_access(fault, original, place_of(fault, original), registers, undefined.read_only):
        return why
    if fault.kind == "number" and opcode.split(".")[0] in ("add", "or") and inputs[-1].isdigit():
        return _same_part(registers, original, result, inputs, fault.changed)
    return ""


def _is_written_by_alloc(registers: Registers, original: str, place: str) -> bool:
    """Whether shared memory at a place, `[symbol+offset]`, has the address that `tcgen05.alloc` writes, and no store
    to that place."""
    for name in re.findall(r"tcgen05\.alloc\S*\s+\[(%r\d+)\]", original):
        every = registers.definitions.get(name, [])
        if len(every) != 1 or not every[0][0].startswith("add."):
            continue
        base, offset = every[0][1]
        if place == f"[{registers.origin(base)}+{offset}]":
            return re.search(rf"st\.shared\S*\s+{re.escape(place)}", original) is None
    return False


def _are_beside(original: str, fault: Fault) -> bool:
    """Whether no statement that orders stands between a moved one and the one that it passes."""
    moved, passed = fault.line, fault.changed.removeprefix("moved past ")
    behind = [each.strip() for each in original[place_of(fault, original) :].splitlines()]
    ends = behind.index(moved), behind.index(passed)
    return not any(ORDERS.match(each) for each in behind[min(ends) + 1 : max(ends)])


def _joins_next_group(original: str, fault: Fault) -> bool:
    """Whether the thread closes another group behind this one, before a branch or a wait; no wait leaves groups open.

    Rings that leave some open count them.
    """
    if re.search(r"cp\.async\.wait_group\s+[1-9]", original):
        return False
    behind = original[place_of(fault, original) :].partition("\n")[2]
    end = re.search(r"^\s*(?:@.*|\$.*:|bra.*|ret;|cp\.async\.wait_.*|(cp\.async\.commit_group;))\s*$", behind, re.M)
    return end is not None and end[1] is not None


def _never_equal(registers: Registers, inputs: list[str], undefined: Undefined) -> str:
    """`lt` and `le` agree on operands that are never equal."""
    for number, other in (inputs, inputs[::-1]):
        bits = registers.zeros(number)
        if other.isdigit() and int(other) % (1 << min(bits, 31)):
            return f"{number} is a multiple of {1 << min(bits, 31)}, {other} is not: they are never equal"
        parameter = re.search(r"_param_(\d+)\]", registers.origin(number))
        if parameter is not None and int(parameter[1]) in undefined.extents and not other.isdigit():
            return 'Tile IR, "load_view_tko": where they are equal, the tile is outside of its view: undefined'
        axis = re.fullmatch(r"%ctaid\.([xyz])", registers.origin(other))
        if axis is None:
            continue
        if registers.origin(number) == f"%nctaid.{axis[1]}":
            return 'PTX ISA, "%ctaid": each element is below that of %nctaid'
        parameter = re.search(r"_param_(\d+)\]", registers.origin(number))
        if parameter is not None and ("xyz".index(axis[1]), int(parameter[1])) in undefined.tiles:
            return 'Tile IR, "load_view_tko": where they are equal, the tile is outside of its view: undefined'
    return ""


def _same_part(registers: Registers, ptx: str, result: str, inputs: list[str], changed: str) -> str:
    """Low bits of a sum that each of its users drops: a shift, or a comparison with multiples."""
    constant = re.search(r"(\d+)$", changed)
    if constant is None or len(registers.definitions.get(result, ())) != 1:
        return ""
    known = registers.zeros(inputs[0])
    for opcode, operands in registers.uses(result):
        if opcode.startswith("shr.") and operands[0] == result and operands[1].isdigit():
            bits = int(operands[1])
        elif opcode.startswith("and.") and re.fullmatch(r"\d+", operands[-1]):
            bits = registers.zeros(operands[-1])
        elif re.match(r"setp\.(?:lt|ge)\.[su]", opcode) and operands[0] == result:
            bits = registers.zeros(operands[1])
        elif re.match(r"setp\.(?:gt|le)\.[su]", opcode) and operands[1] == result:
            bits = registers.zeros(operands[0])
        else:
            return ""
        old, new = int(inputs[-1]), int(constant[1])
        if known < bits or old >> bits != new >> bits or old >> known != new >> known:
            return ""
    return f"{inputs[0]} is a multiple of {1 << known}, and the users of {result} drop the bits below"
