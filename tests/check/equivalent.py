"""Proofs that a changed statement is the same: bounds and known low bits of integer registers.

The rules are those of the PTX ISA: "%tid" is below "%ntid", which has at most 1024; "%laneid" is below 32; "%ctaid" is
below 2^31 ("Special Registers"); `shr.u` fills with zeros, `and` keeps no bit that an operand lacks; signed and
unsigned forms of `setp`, `min`, `max`, `cvt`, `mul.wide`, `div`, `rem` and `shr` agree on numbers whose sign bit is
zero.  A register with several definitions has the bounds of all; one that is counted in a loop has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.check.faults import Fault

_SPECIAL = {"%tid.x": 1023, "%laneid": 31, "%ctaid.x": (1 << 31) - 2, "%ctaid.y": 65534, "%ctaid.z": 65534}
_FREE = 64
"""Low bits that are known to be zero of a number without any other."""


class Registers:
    """What is known of the integer registers of one entry; `divisors` has that of each parameter."""

    def __init__(self, ptx: str, divisors: Mapping[int, int]) -> None:
        self.divisors = divisors
        self.definitions: dict[str, list[tuple[str, list[str]]]] = {}
        for match in re.finditer(r"^[ \t]+(?:@!?%p\d+[ \t]+)?([a-z][\w.:]*)[ \t]+([^;]*);", ptx, re.MULTILINE):
            opcode, (result, *operands) = match[1], [each.strip() for each in re.split(r",(?![^{\[]*[}\]])", match[2])]
            for name in re.findall(r"%r[sd]?\d+", result):
                if not opcode.startswith("st."):
                    # Of several results of one statement nothing is known.
                    self.definitions.setdefault(name, []).append((opcode if result == name else "?", operands))

    def most(self, operand: str, seen: frozenset[str] = frozenset()) -> int | None:
        """The largest value as an unsigned number; None where nothing is known."""
        if operand in _SPECIAL:
            return _SPECIAL[operand]
        if re.fullmatch(r"\d+", operand):
            return int(operand)
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
        return max(bits) if name == "and" else bits[0] if name in ("mov", "cvt", "neg") else 0


def proof(fault: Fault, original: str, divisors: Mapping[int, int]) -> str:
    """Why the changed statement does what the original does; empty where no rule says so."""
    code = re.sub(r"^@!?%p\d+\s+", "", fault.line).rstrip(";")
    opcode, rest = (*re.split(r"\s+", code, maxsplit=1), "")[:2]
    inputs = [each.strip() for each in rest.split(",")][1:]
    registers = Registers(original, divisors)
    if fault.kind == "type" and re.search(r"\.[su](?:32|64)", opcode) and inputs:
        limit = 1 << (63 if re.search(r"\.[su]64$", opcode) else 31)
        ends = [registers.most(each) for each in inputs]
        if all(each is not None and each < limit for each in ends):
            return f"operands are at most {ends}: their sign is zero"
    if fault.kind in ("mask bound", "trip count") and len(inputs) == 2 and fault.changed.startswith("setp"):
        if not re.search(r"\.f(?:32|64|16)", opcode) and inputs[1].isdigit() and fault.changed.endswith(rest):
            bits = registers.zeros(inputs[0])
            if int(inputs[1]) % (1 << min(bits, 31)):
                return f"{inputs[0]} is a multiple of {1 << min(bits, 31)}, {inputs[1]} is not: they are never equal"
    return ""
