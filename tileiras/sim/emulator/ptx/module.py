"""Parsed PTX: functions of instructions, variables, and operands of instructions, with the names of special registers
and the bits of literals.

All are plain records; a resolved name (register, label, variable) is one object at all its uses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from .types import PtxType


class Register:
    """A virtual register; ``index`` numbers the registers of its function."""

    __slots__ = ("index", "name", "type")

    def __init__(self, name: str, type: PtxType, index: int) -> None:
        self.name = name
        self.type = type
        self.index = index


class Variable:
    """A variable of a state space: ``size`` bytes (0 for `name[]`), initial ``data``, and address references in it.
    A ``hidden`` parameter is computed by the host from the others."""

    __slots__ = ("align", "data", "hidden", "name", "references", "size", "space", "type")

    def __init__(self, name: str, space: str, type: PtxType, size: int, align: int) -> None:
        self.name = name
        self.space = space
        self.type = type
        self.size = size
        self.align = align
        self.data = b""
        self.hidden = False
        self.references: list[tuple[int, str, int, int]] = []  # (offset, symbol, addend, bytes)


class Immediate:
    """A literal.  ``float_bits`` is (width, bits) for `0f`/`0d` literals; ``value`` an int or float."""

    __slots__ = ("float_bits", "value")

    def __init__(self, value: int | float, float_bits: tuple[int, int] | None = None) -> None:
        self.value = value
        self.float_bits = float_bits


class Special:
    """A special register such as `%tid.x`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Symbol:
    """A use of a variable, function or label name; ``target`` is a Variable, a Function, a Label or the bare name."""

    __slots__ = ("name", "offset", "target")

    def __init__(self, name: str, target: object, offset: int = 0) -> None:
        self.name = name
        self.target = target
        self.offset = offset


class Address:
    """`[base + offset]`; base is a Register, a Symbol, or None for an absolute address."""

    __slots__ = ("base", "offset")

    def __init__(self, base: object, offset: int) -> None:
        self.base = base
        self.offset = offset


class Negated:
    """`!p`."""

    __slots__ = ("operand",)

    def __init__(self, operand: object) -> None:
        self.operand = operand


class Group:
    """Several operands in one place: `{a, b}`, `(a, b)` of a call, or `p|q`; ``form`` is the opening character."""

    __slots__ = ("form", "items")

    def __init__(self, form: str, items: list) -> None:
        self.form = form
        self.items = items


class Sink:
    """`_`: an unused result."""

    __slots__ = ()


class Label:
    __slots__ = ("name", "position")

    def __init__(self, name: str) -> None:
        self.name = name
        self.position = -1  # index of the instruction that follows


class Instruction:
    """``opcode`` is the part before the first dot, ``modifiers`` the rest; ``guard`` the predicate and its negation."""

    __slots__ = ("guard", "line", "modifiers", "opcode", "operands", "text")

    def __init__(
        self,
        opcode: str,
        modifiers: list[str],
        operands: list,
        guard: Sequence[Register | bool] | None,
        line: int,
        text: str,
    ) -> None:
        self.opcode = opcode
        self.modifiers = modifiers
        self.operands = operands
        self.guard: tuple[Register, bool] | None = guard
        self.line = line
        self.text = text


class Function:
    """An entry or a device function; ``body`` is None for a declaration."""

    __slots__ = (
        "body",
        "directives",
        "is_entry",
        "labels",
        "name",
        "params",
        "registers",
        "results",
        "variables",
    )

    def __init__(self, name: str, is_entry: bool) -> None:
        self.name = name
        self.is_entry = is_entry
        self.params: list[Variable] = []
        self.results: list[Variable] = []
        self.directives: dict[str, tuple[int, ...]] = {}
        self.body: list[Instruction] | None = None
        self.labels: list[Label] = []
        self.registers: list[Register] = []
        self.variables: list[Variable] = []


class Module:
    """``lines`` are the lines of the text, for messages."""

    def __init__(self) -> None:
        self.version = ""
        self.target = ""
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}

    @property
    def entries(self) -> list[str]:
        return [f.name for f in self.functions.values() if f.is_entry]


def immediate_bits(operand: Immediate, type_: PtxType) -> int | None:
    """The bits of a literal as a type; None for a fraction if the type has no fractional literals."""
    if operand.float_bits is not None and operand.float_bits[0] == type_.bits:
        return operand.float_bits[1]
    value = operand.value
    if isinstance(value, int):
        return value & ((1 << type_.bits) - 1)
    if type_.bits == 64:
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if type_.bits == 32:
        with np.errstate(over="ignore"):
            return int(np.float32(value).view(np.uint32))
    if type_.name == "f16":
        return int(np.float16(value).view(np.uint16))
    return None


_SPECIAL_VECTORS = (
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
)
_SPECIAL_SCALARS = {
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%is_explicit_cluster",
    "%total_smem_size",
    "%aggr_smem_size",
    "%dynamic_smem_size",
    "%reserved_smem_offset_begin",
    "%perctamemoryoffset",
}


def is_special(name: str) -> bool:
    """Whether a name is that of a special register, a vector's with its axis."""
    head, _, axis = name.partition(".")
    return name in _SPECIAL_SCALARS or (head in _SPECIAL_VECTORS and axis in ("x", "y", "z"))
