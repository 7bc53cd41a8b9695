"""The purpose of each instruction of a loop of machine code, by the dataflow from it to the instructions with effects.

Instructions with an effect beyond registers (dots, copies, accesses, barriers, branches) and those that compute with
elements of tiles (arithmetic, conversions, exchanges between threads) are roots of the trace.  Integer instructions,
selections and predicates get their purpose from the instructions that read their results, and from the operand's
position: an address, a guard, an operand.  Overhead is moves, spills, loop-invariant and repeated computations, and
results that no instruction reads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.register_uses import Uses
from tileiras.codegen.machine_code import INSTRUCTION_BYTES, Instruction, MachineCode

_EFFECTS: dict[str, str] = {
    "dot": "HMMA IMMA QMMA OMMA DMMA BMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCMXQMMA",
    "copy": "LDGSTS UTMALDG UBLKCP UTMAPF UBLKPF",
    "copy to global memory": "UTMASTG UTMAREDG UBLKRED",
    "load": "LDG LD",
    "store": "STG ST RED REDG ATOM ATOMG",
    "shared memory": "LDS LDSM STS STSM ATOMS STAS REDAS",
    "tensor memory": "LDTM STTM UTCCP",
    "barrier": "BAR SYNCS DEPBAR LDGDEPBAR WARPGROUP MEMBAR FENCE ARRIVES UTCBAR UCGABAR_ARV UCGABAR_WAIT UTMACMDFLUSH"
               " ERRBAR CGAERRBAR CCTL NANOSLEEP UTCATOMSWS",
    "branch": "BRA BRX BRXU JMP JMX EXIT CALL RET BSSY BSYNC BREAK WARPSYNC YIELD USETMAXREG",
}  # fmt: skip
_COMPUTATIONS: dict[str, str] = {
    "arithmetic": "FADD FMUL FFMA FADD2 FMUL2 FFMA2 FMNMX FMNMX3 FSEL FSETP FSET FCHK FADD32I FMUL32I FFMA32I HADD2"
                  " HMUL2 HFMA2 HMNMX2 HSET2 HSETP2 HADD2_32I HMUL2_32I HFMA2_32I DADD DMUL DFMA DMNMX DSETP IDP"
                  " VHMNMX",
    "special functions": "MUFU",
    "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I FRND I2IP",
    "exchange between threads": "SHFL REDUX CREDUX MOVM",
}  # fmt: skip
EFFECT_OF = {opcode: name for name, opcodes in _EFFECTS.items() for opcode in opcodes.split()}
COMPUTATION_OF = {opcode: name for name, opcodes in _COMPUTATIONS.items() for opcode in opcodes.split()}
OF_SEVERAL = "several of these"
LATER = "values for the code after the loop"
CARRIED = "loop counter"
"""The purpose of instructions that only branches of the loop read."""

MOVE, SPILL, RECOMPUTED, REPEATED, UNREAD, NOTHING = (
    "moves", "spills", "the same in every iteration", "computed before", "not read", "no operation",
)  # fmt: skip
WASTES = MOVE, SPILL, RECOMPUTED, REPEATED, UNREAD, NOTHING
"""Reasons for which an instruction has no purpose."""

_MOVES = frozenset({"MOV", "UMOV", "R2UR", "MOV32I"})
_SPILLS = frozenset({"LDL", "STL"})
_NEVER = ("!PT", "!UPT")
"""Guards of instructions that keep a place only."""
_REGISTER = re.compile(r"(?<![A-Za-z0-9_])(UR|UP|R|P)(\d+)")
_ENTRY = -1
"""The definition of registers that nothing before defines."""


class Purpose(NamedTuple):
    """An instruction of a loop, its purpose, and why it has none."""

    instruction: Instruction
    name: str
    """Of an instruction without a purpose: that of the instructions that read its result."""
    waste: str = ""
    """One of `WASTES`; empty with a purpose."""


class Loop(NamedTuple):
    """A natural loop by the numbers of its blocks.  `hot` are its instructions from the head to the last branch back:
    behind that one ptxas puts the repetitions of waits."""

    head: int
    blocks: frozenset[int]
    hot: tuple[int, ...]


class Flow:
    """Definitions of registers that reach each instruction of an entry."""

    def __init__(self, code: MachineCode, uses: Mapping[int, Uses]) -> None:
        self.code = code
        self.uses = [uses.get(each.address, Uses(frozenset(), frozenset())) for each in code.instructions]
        self.ranges = [range(b.start // INSTRUCTION_BYTES, b.end // INSTRUCTION_BYTES) for b in code.blocks]
        self.number = {block.start: number for number, block in enumerate(code.blocks)}
        self.sources: list[dict[str, frozenset[int]]] = [{} for _ in code.instructions]
        """By register that an instruction reads: the instructions that define it."""
        self.readers: dict[int, set[tuple[int, str]]] = defaultdict(set)
        """The instructions that read a result, with the register."""
        reached: list[dict[str, frozenset[int]]] = [{} for _ in code.blocks]
        waiting, seen = [0], {0}
        while waiting:
            block = waiting.pop()
            state = self._through(block, dict(reached[block]))
            for start in code.blocks[block].successors:
                after = self.number[start]
                merged = {name: state.get(name, frozenset()) | reached[after].get(name, frozenset())
                          for name in state.keys() | reached[after].keys()}  # fmt: skip
                if after not in seen or merged != reached[after]:
                    reached[after] = merged
                    seen.add(after)
                    waiting.append(after)
        for number, state in enumerate(reached):
            self._through(number, dict(state), record=True)

    def _through(self, block: int, state: dict[str, frozenset[int]], record: bool = False) -> dict[str, frozenset[int]]:
        for at in self.ranges[block]:
            reads, writes = self.uses[at]
            if record:
                self.sources[at] = {name: state.get(name, frozenset({_ENTRY})) for name in reads}
                for name, sources in self.sources[at].items():
                    for source in sources:
                        self.readers[source].add((at, name))
            guarded = self.code.instructions[at].predicate not in ("", "PT", "UPT")
            for name in writes:
                state[name] = frozenset({at}) | (state.get(name, frozenset()) if guarded else frozenset())
        return state

    def loops(self) -> list[Loop]:
        """The natural loops, one a head, in order of address."""
        before: dict[int, list[int]] = defaultdict(list)
        for number, block in enumerate(self.code.blocks):
            for start in block.successors:
                before[self.number[start]].append(number)
        result = []
        for head, origins in sorted(before.items()):
            bodies = {origin: self._body(head, origin, before) for origin in origins}
            # A walk to the entry says that the head does not dominate the origin: no loop.
            back = {origin: body for origin, body in bodies.items() if head == 0 or 0 not in body}
            if back:
                blocks = frozenset().union(*back.values())
                hot = tuple(at for block in sorted(blocks) if head <= block <= max(back) for at in self.ranges[block])
                result.append(Loop(head, blocks, hot))
        return result

    @staticmethod
    def _body(head: int, origin: int, before: Mapping[int, Sequence[int]]) -> set[int]:
        """The blocks from which a branch back to the head is reached without the head."""
        body, waiting = {head}, [origin]
        while waiting:
            block = waiting.pop()
            if block not in body:
                body.add(block)
                waiting += before.get(block, ())
        return body


def working_loops(flow: Flow) -> list[Loop]:
    """The innermost loops that do more than wait.  Of several with instructions of the same lines of the PTX, such as
    an unrolled loop and the one for its rest, the longest."""
    code = flow.code.instructions
    working = [each for each in flow.loops() if any(_works(code[at]) for at in each.hot)]
    inner = [each for each in working
             if not any(other is not each and set(other.hot) < set(each.hot) for other in working)]  # fmt: skip
    result: list[Loop] = []
    for each in sorted(inner, key=lambda loop: (-len(loop.hot), loop.head)):
        lines = {code[at].ptx_line for at in each.hot if _works(code[at])}
        if all(lines.isdisjoint(code[at].ptx_line for at in other.hot if _works(code[at])) for other in result):
            result.append(each)
    return sorted(result)


def _works(instruction: Instruction) -> bool:
    return EFFECT_OF.get(instruction.opcode) not in (None, "barrier", "branch") or instruction.opcode in COMPUTATION_OF


def is_move(instruction: Instruction) -> bool:
    return instruction.opcode in _MOVES or "MOV" in instruction.modifiers


def purposes(flow: Flow, loop: Loop) -> list[Purpose]:
    """Each instruction of a loop with its purpose."""
    traced = _traced(flow, loop)
    constant = _constant(flow, loop)
    before = _computed_before(flow, loop)
    result = []
    for at in loop.hot:
        each = flow.code.instructions[at]
        names = traced[at]
        name = "" if not names else next(iter(names)) if len(names) == 1 else OF_SEVERAL
        waste = ""
        if each.opcode == "NOP" or each.predicate in _NEVER:
            waste = NOTHING
        elif each.opcode in _SPILLS:
            waste = SPILL
        elif each.opcode not in EFFECT_OF:
            if not names:
                waste = UNREAD
            elif at in constant:
                waste = RECOMPUTED
            elif is_move(each):
                waste = MOVE
            elif at in before:
                waste = REPEATED
        result.append(Purpose(each, name, waste))
    return result


def _traced(flow: Flow, loop: Loop) -> dict[int, frozenset[str]]:
    """The purposes of the instructions of a loop: own ones, or those of the readers of their results."""
    code = flow.code.instructions
    inside = [at for block in sorted(loop.blocks) for at in flow.ranges[block]]
    own = {at: EFFECT_OF.get(code[at].opcode) or COMPUTATION_OF.get(code[at].opcode) for at in inside}
    result = {at: frozenset({name} if (name := own[at]) else ()) for at in inside}
    changed = True
    while changed:
        changed = False
        for at in reversed(inside):
            if own[at]:
                continue
            names = set(result[at])
            for reader, register in flow.readers.get(at, ()):
                kind = own.get(reader)
                if kind:
                    names.add(_as_operand(code[reader], register, flow.uses[reader], kind))
                else:
                    names |= result.get(reader, frozenset())
            if names != result[at]:
                result[at], changed = frozenset(names), True
    for at in inside:
        if not result[at] and any(reader not in own for reader, _ in flow.readers.get(at, ())):
            result[at] = frozenset({LATER})
    return result


def _as_operand(reader: Instruction, register: str, uses: Uses, kind: str) -> str:
    """The purpose of a value by its position in an instruction that reads it."""
    if kind == "branch":
        return CARRIED
    if reader.predicate.lstrip("!") == register:
        return f"guard: {kind}"
    file, number = re.fullmatch(r"(\D+)(\d+)", register).groups()  # type: ignore[union-attr]
    best: tuple[int, int] | None = None
    for position, operand in enumerate(reader.operands):
        for other, first in _REGISTER.findall(operand):
            if other == file and int(first) <= int(number) and not (position == 0 and f"{other}{first}" in uses.writes):
                best = max(best or (-1, -1), (int(first), position))
    if best is not None and "[" in reader.operands[best[1]]:
        return f"address or descriptor: {kind}"
    return f"operand: {kind}"


def _constant(flow: Flow, loop: Loop) -> frozenset[int]:
    """Instructions whose result is the same in every iteration: without an effect, from definitions outside of the loop
    and from each other."""
    code = flow.code.instructions
    inside = {at for block in loop.blocks for at in flow.ranges[block]}
    result: set[int] = set()
    changed = True
    while changed:
        changed = False
        for at in inside - result:
            if code[at].opcode in EFFECT_OF or code[at].opcode in _SPILLS or _varies(code[at]):
                continue
            if all(len(each) == 1 and (each - inside or each <= result) for each in flow.sources[at].values()):
                result.add(at)
                changed = True
    return frozenset(result)


_OF_OTHER_THREADS = frozenset({"SHFL", "REDUX", "CREDUX", "VOTE", "VOTEU", "MATCH"})
_TIMES = ("SR_CLOCKLO", "SR_CLOCKHI", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI")


def _varies(instruction: Instruction) -> bool:
    """Whether the result depends on more than the operands: on other threads, or on the time."""
    return instruction.opcode in _OF_OTHER_THREADS or any(each in _TIMES for each in instruction.operands)


def _computed_before(flow: Flow, loop: Loop) -> frozenset[int]:
    """Instructions that compute what an earlier one of their block has computed."""
    code = flow.code.instructions
    result: set[int] = set()
    for block in loop.blocks:
        known: set[tuple[object, ...]] = set()
        for at in flow.ranges[block]:
            each = code[at]
            if each.opcode in EFFECT_OF or each.opcode in _SPILLS or _varies(each):
                continue
            written = sorted(flow.uses[at].writes)
            if not written:
                continue
            key = (each.name, each.predicate, tuple(_without_result(each)), tuple(sorted(flow.sources[at].items())))
            if key in known:
                result.add(at)
            known.add(key)
    return frozenset(result)


def _without_result(instruction: Instruction) -> Iterator[str]:
    """The operands behind the first one, registers by their file only: definitions say which."""
    for operand in instruction.operands[1:]:
        yield _REGISTER.sub(lambda match: match[0].replace(".reuse", ""), operand).replace(".reuse", "")


def roles(instructions: Sequence[Purpose]) -> str:
    """The role of the warps that execute a loop, by the instructions that it consists of."""
    present = {each.name for each in instructions if not each.waste}
    parts = [text for names, text in _ROLES if present & names]
    return ", ".join(parts)


_ROLES: tuple[tuple[set[str], str], ...] = (
    ({"copy"}, "copies"), ({"dot"}, "dots"), ({"arithmetic", "conversion"}, "arithmetic"), ({"load"}, "loads"),
    ({"store", "copy to global memory"}, "stores"),
)  # fmt: skip
