"""Which dots are too large to be unrolled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import FloatType
from tileiras.layout.encoding import layout_of
from tileiras.targets import UNIVERSAL_FMA, Target, mma_atom

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

UNROLLED = 512
"""Multiply-adds of a thread up to which a dot is written out: a loop saves nothing there."""

MATRIX_INSTRUCTIONS = 128
"""The same of matrix instructions of a warp.  ptxas takes half a millisecond for each."""

OPERAND_MAKERS = (*tileas.VIEW_LIKE, tileas.BroadcastOp, tileas.ConvertLayoutOp)
"""Operations allowed between a tile and an operand that is computed from it slice by slice."""


def is_large(op: tileas.Dot, target: Target) -> bool:
    """Whether an operation is a dot that becomes a loop if it can be sliced."""
    return isinstance(op, tileas.DotOp) and _exceeds(op, not target.has("fp8_products"))


def may_be_large(op: tileas.DotOp) -> bool:
    """Whether a dot of threads or warps is large on some target."""
    return (is_multiply_add(op) or mma_atom(op.atom.atom).executor == "warp") and _exceeds(op, True)


def _exceeds(op: tileas.DotOp, by_halves: bool) -> bool:
    if is_multiply_add(op):
        return layout_of(op.c.type).registers * op.a.type.shape[-1] > UNROLLED
    return _instructions(op, by_halves) > MATRIX_INSTRUCTIONS


def is_multiply_add(op: tileas.DotOp) -> bool:
    return op.atom.atom == UNIVERSAL_FMA


def matrix_instructions(op: tileas.DotOp, target: Target) -> int:
    """Matrix instructions of a warp for a dot that has them."""
    return _instructions(op, not target.has("fp8_products"))


def _instructions(op: tileas.DotOp, by_halves: bool) -> int:
    atom = mma_atom(op.atom.atom)
    pieces = layout_of(op.c.type).registers >> len(atom.c.bases["register"])
    halves = 2 if atom.halves and by_halves else 1
    return pieces * (op.a.type.shape[-1] // atom.shape[2]) * halves


def accumulates_wider(op: aa.Dot) -> bool:
    """Whether multiply-adds hold the accumulator in a wider type than the dot's, and round it once, at the end."""
    element = op.c.type.element_type
    return isinstance(element, FloatType) and element.keyword not in ("f16", "bf16", "f32", "f64")
