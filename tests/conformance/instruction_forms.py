"""The forms of instructions in PTX (opcode, modifiers and kinds of operands), each with one example."""

from __future__ import annotations

import re
from collections.abc import Iterator

_REGISTER = re.compile(r"%(p|rs|rd|rq|r)(\d+)\b")
_NUMBER = re.compile(r"(?<![\w%$.])-?(?:0[fd][0-9A-Fa-f]+|0x[0-9A-Fa-f]+U?|\d+)(?![\w.])")
# Names of other things in the module: labels, parameters, functions, registers of inline assembly, variables except the
# array of shared memory.
_ELSEWHERE = re.compile(r"\b(?:bra|brx|call|ret|exit|trap)\b|\.param\b|(?<![\w%.:])(?!smem\b)[A-Za-z_$]\w*(?=[,;\]+}])")
_INSTRUCTION = re.compile(r"(?:^|[;{}])\s*(?:@!?%\w+\s+)?([a-z]\w*(?:[.:]+\w+)*)(\s[^;]*)?;")
#: Instructions whose immediate operands select a variant.
_COUNTED = re.compile(r"cp\.async|bar|wait_group")


def forms(ptx: str) -> Iterator[str]:
    """One instruction per line of PTX, its registers numbered from 1 in each class; no declarations, no jumps."""
    for line in ptx.split("\n"):
        code = " ".join(line.split("//")[0].split())
        if not code or code[0] in ".$)" or code.endswith((":", "(", ",", ")")):
            continue
        for opcode, operands in _INSTRUCTION.findall(code):
            operands = operands.strip()
            if _ELSEWHERE.search(f"{opcode} ") is None and _ELSEWHERE.search(f"{operands};") is None:
                yield _renamed(f"{opcode} {operands}".rstrip() + ";")


def _renamed(text: str) -> str:
    names: dict[str, dict[str, int]] = {}

    def register(match: re.Match[str]) -> str:
        numbers = names.setdefault(match.group(1), {})
        return f"%{match.group(1)}{numbers.setdefault(match.group(2), len(numbers) + 1)}"

    text = _REGISTER.sub(register, text)
    if _COUNTED.search(text) is None:
        text = _NUMBER.sub(_constant, text)
    return text


def _constant(match: re.Match[str]) -> str:
    """Replace literals by their kind."""
    number = match.group()
    return f"{number[:2]}{'0' * (len(number) - 2)}" if number[:2] in ("0f", "0d") else "16"
