"""Integer registers and predicates of PTX as bit vectors of a solver (z3), by the rules of the PTX ISA.

A register with one definition is that statement's term.  One with several definitions has a value of its own for each
set of definitions that reach a use: equal sets are the same value, which is so within one trip of a loop.  The results
of loads, of floating-point operations and of all unknown statements may be anything.
"""

from __future__ import annotations

import re
from typing import Any

import z3

from tests.check.counters import Counter, counter
from tests.check.flow import GRID, Block, Flow, Statement
from tests.check.undefined import NOTHING, Undefined
from tileiras.check.facts import Facts

_COMPARED = {
    "eq": lambda a, b, _: a == b, "ne": lambda a, b, _: a != b,
    "lt": lambda a, b, s: a < b if s else z3.ULT(a, b), "le": lambda a, b, s: a <= b if s else z3.ULE(a, b),
    "gt": lambda a, b, s: a > b if s else z3.UGT(a, b), "ge": lambda a, b, s: a >= b if s else z3.UGE(a, b),
    "lo": lambda a, b, _: z3.ULT(a, b), "ls": lambda a, b, _: z3.ULE(a, b),
    "hi": lambda a, b, _: z3.UGT(a, b), "hs": lambda a, b, _: z3.UGE(a, b),
}  # fmt: skip
_LOGIC = {"and": z3.And, "or": z3.Or, "xor": z3.Xor, "not": z3.Not, "mov": lambda x: x}
_MOST = {"%tid.x": 1023, "%laneid": 31, **GRID}
_ADDRESS = re.compile(r"(?:mov|add|sub|mul|mad|shl|shr|and|or|cvt|cvta|selp|min|max)\.")
"""Operations by which addresses are computed."""
_WITHOUT_SIGN = re.compile(r"(?:ex2\.approx|abs)(?:\.ftz)?\.f32$|cvt\.r[nzmp]\.f32\.u\d+$")
"""Operations whose results have no sign: neither zeros nor NaN, which is canonical (PTX ISA, "NaN", and the table of
`ex2`)."""
_TIMEOUT = 8000
"""Milliseconds for one question."""


def _permute(low: Any, high: Any, selector: int) -> Any:
    """The bytes of two words that a selector names (PTX ISA, "prmt"), each perhaps replaced by its sign."""
    both, result = z3.Concat(high, low), []
    for place in (3, 2, 1, 0):
        number = selector >> 4 * place & 15
        byte = z3.Extract(8 * (number & 7) + 7, 8 * (number & 7), both)
        result.append(byte >> 7 if number & 8 else byte)
    return z3.Concat(*result)


class Unknown(Exception):
    """A statement without a rule."""


class Terms:
    """The terms of one entry, with the facts about its parameters and special registers."""

    def __init__(self, ptx: str, place: int, facts: Facts, undefined: Undefined = NOTHING) -> None:
        self.flow, self.facts, self.undefined = Flow(ptx, place), facts, undefined
        self.holds: list[Any] = []
        """Bounds of special registers and the program's assumptions."""
        self._known: dict[Any, Any] = {}
        self.instead: dict[str, Any] = {}
        """Registers with another term than that of their definition."""
        head = ptx[:place].rpartition(".entry")[2]
        threads = re.search(r"\.(?:reqntid|maxntid) (\d+)", head)
        self.threads = int(threads[1]) if threads else 1024
        for axis, number in undefined.tiles:
            self.holds.append(z3.ULT(self._special(f"%ctaid.{'xyz'[axis]}"), z3.BitVec(f"parameter {number}", 32)))
        for axis, number, elements in undefined.spans:
            begin = z3.ZeroExt(32, self._special(f"%ctaid.{'xyz'[axis]}")) * elements
            self.holds.append(z3.ULT(begin, z3.ZeroExt(32, z3.BitVec(f"parameter {number}", 32))))
        self.aligned = {m[2]: int(m[1]) for m in re.finditer(r"\.shared \.align (\d+) \.b8 (\w+)", ptx)}

    def value(self, operand: str, block: Block, place: int, width: int) -> Any:
        """The term of an operand of a statement."""
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
            return z3.BitVecVal(int(operand, 0), width)
        if operand.startswith("%p"):
            return self.predicate(operand, block, place)
        if re.fullmatch(r"%(?:r[sd]?)\d+", operand):
            term = self._register(operand, block, place)
        elif re.fullmatch(r"%\w+(?:\.[xyz])?", operand):
            term = self._special(operand)
        elif operand in self.aligned:
            term = self._fresh(operand, 64)
            self.holds.append(term & (self.aligned[operand] - 1) == 0)
        else:
            raise Unknown(operand)
        size = term.size()
        if size >= width:
            return term if size == width else z3.Extract(width - 1, 0, term)
        return z3.ZeroExt(width - size, term)

    def predicate(self, operand: str, block: Block, place: int) -> Any:
        if operand.startswith("!"):
            return z3.Not(self.predicate(operand[1:], block, place))
        return self._register(operand, block, place)

    def _special(self, name: str) -> Any:
        term = self._fresh(name, 32)
        if name not in self._known.setdefault("bounds", {}):
            self._known["bounds"][name] = True
            most = self.threads - 1 if name == "%tid.x" else _MOST.get(name)
            if most is not None:
                self.holds.append(z3.ULE(term, most))
            if name.startswith("%ctaid"):
                self.holds.append(z3.ULT(term, self._special(name.replace("ctaid", "nctaid"))))
            if name.startswith("%nctaid"):
                self.holds.append(z3.And(term >= 1))
        return term

    def _fresh(self, name: str, width: int) -> Any:
        return z3.Bool(name) if not width else z3.BitVec(name, width)

    def _register(self, name: str, block: Block, place: int) -> Any:
        if name in self.instead:
            return self.instead[name]
        reaching = self.flow.reaching(name, block, place)
        key = name, reaching
        if key in self.instead:
            return self.instead[key]
        if key not in self._known:
            width = 0 if name.startswith("%p") else {"%rd": 64, "%rs": 16}.get(name[:3], 32)
            fresh = self._fresh(f"{name}@{','.join(map(str, sorted(reaching)))}", width)
            self._known[key] = fresh  # also where its definition comes back to it
            every = [each for each in self.flow.definitions.get(name, ()) if each[1].start in reaching]
            if len(every) == 1 and len(reaching) == 1 and not every[0][1].guard:
                try:
                    self._known[key] = self.result(every[0][1], every[0][0])
                except (Unknown, z3.Z3Exception):
                    pass
            if self._known[key] is fresh and width:
                self._bound(fresh, name, every, reaching)
        return self._known[key]

    def _bound(self, fresh: Any, name: str, every: list[tuple[Block, Statement]], reaching: frozenset[int]) -> None:
        """The bounds of a register without a term of its own: the number of a tile, or a loop's counter."""
        if every and (
            all(self._is_natural(block, statement) for block, statement in every)
            or all(self._has_no_sign(statement) for _, statement in every)
        ):
            self.holds.append(fresh >= 0)
        elif len(reaching) == 2 and (counted := counter(self.flow, name)) is not None:
            self._bound_counter(fresh, counted)

    def _bound_counter(self, fresh: Any, counted: Counter) -> None:
        """The bounds of a counter, if its loop begins below the end only."""
        (block, statement), width = counted.start, fresh.size()
        try:
            start = self.result(statement, block)
            end = self.value(counted.end, counted.latch, counted.compare.start, width)
        except (Unknown, z3.Z3Exception):
            return
        head = counted.head
        reached = self.path(head, head.statements[0].start if head.statements else 0)
        if self.never(*reached, start >= end):
            self.holds.append(z3.And(start <= fresh, fresh < end))

    def _is_natural(self, block: Block, statement: Statement) -> bool:
        """Whether a definition gives the number of a tile, which is negative in undefined executions only, or a
        constant that is not negative."""
        if re.match(r"ld\.global\.(?:nc\.)?[bsu]32$", statement.opcode):
            return self._arrays(statement.operands[1]) <= self.undefined.numbers
        try:
            term = z3.simplify(self.result(statement, block))
        except (Unknown, z3.Z3Exception):
            return False
        return z3.is_bv_value(term) and term.as_signed_long() >= 0

    def _has_no_sign(self, statement: Statement, depth: int = 4) -> bool:
        """Whether a float has none; a product of such has none."""
        if not re.match(r"mul\.rn(?:\.ftz)?\.f32$", statement.opcode) or not depth:
            return _WITHOUT_SIGN.match(statement.opcode) is not None
        factors = [self.flow.definitions.get(name, []) for name in statement.operands[1:]]
        return all(every and all(self._has_no_sign(each, depth - 1) for _, each in every) for every in factors)

    def _arrays(self, address: str) -> set[int | None]:
        """The pointers of the entry that an address may be computed of; None among them if anything else is."""
        pointers = {each.position for each in self.facts.parameters if each.kind == "pointer"}
        result, waiting, seen = set[int | None](), re.findall(r"%rd?\d+", address), set[str]()
        while waiting:
            name = waiting.pop()
            for _, statement in self.flow.definitions.get(name, ()) if name not in seen else ():
                parameter = re.search(r"_param_(\d+)\]", statement.operands[1])
                if statement.opcode.startswith("ld.param") and parameter is not None:
                    result |= {int(parameter[1])} & pointers
                elif not _ADDRESS.match(statement.opcode):
                    result.add(None)
                waiting += re.findall(r"%rd?\d+", " ".join(statement.operands[1:]))
            seen.add(name)
        return result or {None}

    def result(self, statement: Statement, block: Block, code: str = "") -> Any:
        """The term of a statement's result, or that of a changed `code` in its place.  Raises Unknown."""
        opcode, operands = statement.opcode, statement.operands
        if code:
            opcode, _, rest = code.partition(" ")
            operands = tuple(each.strip() for each in rest.rstrip(";").split(","))
        if opcode != "?" and len(statement.results) != 1 or opcode == "?":
            raise Unknown(opcode)
        if half := re.fullmatch(r"\{(_, )?%r\d+(?:, _)?\}", operands[0]):
            pair = self.value(operands[1], block, statement.start, 64)
            return z3.Extract(63, 32, pair) if half[1] else z3.Extract(31, 0, pair)
        return self._meaning(opcode, operands[1:], block, statement.start)

    def _meaning(self, opcode: str, inputs: tuple[str, ...], block: Block, place: int) -> Any:
        name, *kinds = opcode.split(".")
        if name == "shfl":
            return self._of_lane(opcode, inputs, block, place)
        types = [each for each in kinds if re.fullmatch(r"[busf](?:8|16|32|64)|pred|f16x2|bf16x?2?", each)]
        if not types or any(re.match(r"b?f", each) for each in types) and name != "mov":
            raise Unknown(opcode)
        if types[-1] == "pred":
            if name not in _LOGIC:
                raise Unknown(opcode)
            return _LOGIC[name](*(self.predicate(each, block, place) for each in inputs))
        if name == "ld":
            return self._parameter(opcode, inputs, int(types[-1][1:]))
        width, signed = int(types[-1][1:]), types[-1][0] == "s"

        def at(number: int, bits: int = width) -> Any:
            return self.value(inputs[number], block, place, bits)

        if name == "setp":
            if len(kinds) > 2:
                raise Unknown(opcode)
            return _COMPARED[kinds[0]](at(0), at(1), signed)
        if name == "selp":
            return z3.If(self.predicate(inputs[2], block, place), at(0), at(1))
        if name == "cvt":
            return self._converted(types, inputs[0], block, place)
        if name in ("mul", "mad"):
            return self._product(kinds, name, at, width, signed)
        if name == "mov":
            if pair := re.fullmatch(r"\{(%r\d+), (%r\d+)\}", inputs[0]):
                return z3.Concat(*(self.value(each, block, place, 32) for each in (pair[2], pair[1])))
            return at(0)
        if name == "prmt" and len(kinds) == 1 and (selector := re.fullmatch(r"(0x[0-9A-Fa-f]+|\d+)U?", inputs[2])):
            return _permute(at(0), at(1), int(selector[1], 0))
        if name == "bfe" and not signed and inputs[1].isdigit() and inputs[2].isdigit():
            return z3.LShR(at(0), int(inputs[1])) & ((1 << min(int(inputs[2]), width)) - 1)
        if name in ("shl", "shr"):
            count = self.value(inputs[1], block, place, 32)
            count = z3.ZeroExt(width - 32, count) if width > 32 else z3.If(
                z3.ULT(count, width), z3.Extract(width - 1, 0, count), z3.BitVecVal(width, width))  # fmt: skip
            a = at(0)
            return a << count if name == "shl" else a >> count if signed else z3.LShR(a, count)
        if "sat" in kinds or "cc" in kinds:
            raise Unknown(opcode)
        binary = {
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "and": lambda a, b: a & b,
            "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
            "min": lambda a, b: z3.If(a < b if signed else z3.ULT(a, b), a, b),
            "max": lambda a, b: z3.If(a > b if signed else z3.UGT(a, b), a, b),
            "div": lambda a, b: a / b if signed else z3.UDiv(a, b),
            "rem": lambda a, b: z3.SRem(a, b) if signed else z3.URem(a, b),
        }  # fmt: skip
        if name in binary:
            return binary[name](at(0), at(1))
        if name in ("not", "neg"):
            return ~at(0) if name == "not" else -at(0)
        raise Unknown(opcode)

    def _of_lane(self, opcode: str, inputs: tuple[str, ...], block: Block, place: int) -> Any:
        """The number that the first lane of a warp computes of its own number."""
        term = self.value(inputs[0], block, place, 32)
        if not opcode.startswith("shfl.sync.idx") or inputs[1] != "0" or "@" in str(term):
            raise Unknown(opcode)
        number = z3.BitVec("%tid.x", 32)
        return z3.substitute(term, (number, number & 0xFFFFFFE0))

    def _converted(self, types: list[str], operand: str, block: Block, place: int) -> Any:
        to, of = int(types[0][1:]), int(types[1][1:])
        term = self.value(operand, block, place, of)
        if to <= of:
            return z3.Extract(to - 1, 0, term)
        return z3.SignExt(to - of, term) if types[1][0] == "s" else z3.ZeroExt(to - of, term)

    @staticmethod
    def _product(kinds: list[str], name: str, at: Any, width: int, signed: bool) -> Any:
        if "hi" in kinds:
            raise Unknown(name)
        wide = "wide" in kinds
        extend = z3.SignExt if signed else z3.ZeroExt
        a, b = (extend(width, at(n)) if wide else at(n) for n in (0, 1))
        return a * b + (at(2, 2 * width if wide else width) if name == "mad" else 0)

    def _parameter(self, opcode: str, inputs: tuple[str, ...], width: int) -> Any:
        match = re.fullmatch(r"\[\w+_param_(\d+)\]", inputs[0]) if opcode.startswith("ld.param") else None
        if match is None or int(match[1]) >= len(self.facts.arguments):
            raise Unknown(opcode)
        parameter = self.facts.arguments[int(match[1])]
        term = self._fresh(f"parameter {match[1]}", width)
        if match[1] not in self._known.setdefault("parameters", {}):
            self._known["parameters"][match[1]] = True
            if parameter.divisor > 1 and not parameter.divisor & parameter.divisor - 1:
                self.holds.append(term & (parameter.divisor - 1) == 0)
            low = parameter.low
            if parameter.position in self.extents:
                low = max(low or 0, 0)
            if low is not None:
                self.holds.append(term >= low)
            if parameter.high is not None:
                self.holds.append(term <= parameter.high)
        return term

    @property
    def extents(self) -> set[int]:
        """Parameters that are extents of views, which are not negative."""
        every = (each for view in self.facts.views for each in view.shape if each is not None)
        return {number for kind, number in every if kind == "parameter"}

    def path(self, block: Block, place: int, stop: int = -1) -> list[Any]:
        """Conditions of branches that every path to a block passes, from the block `stop` on."""
        result = []
        number = block.number
        dominators = self.flow.dominators
        while number not in (0, stop):
            here = self.flow.blocks[number]
            if len(here.before) == 1:
                before = self.flow.blocks[here.before[0]]
                if before.guard and len(set(before.next)) == 2:
                    last = before.statements[-1]
                    taken = self.predicate(before.guard, before, last.start)
                    result.append(taken if before.next[0] == number else z3.Not(taken))
            above = dominators[number] - {number}
            number = max(above, key=lambda each: len(dominators[each])) if above else 0
        return result

    def never(self, *conditions: Any) -> bool:
        """Whether conditions cannot all be true."""
        solver = z3.Solver()
        solver.set("timeout", _TIMEOUT)
        solver.add(*self.holds, *conditions)
        return solver.check() == z3.unsat
