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


def is_large(op: tileas.Dot, target: Target) -> bool:
    """Whether an operation is a dot of which a loop is made if it can be cut."""
    if not isinstance(op, tileas.DotOp):
        return False
    if is_multiply_add(op):
        return layout_of(op.c.type).registers * op.a.type.shape[-1] > UNROLLED
    return matrix_instructions(op, target) > MATRIX_INSTRUCTIONS


def is_multiply_add(op: tileas.DotOp) -> bool:
    return op.atom.atom == UNIVERSAL_FMA


def matrix_instructions(op: tileas.DotOp, target: Target) -> int:
    """Matrix instructions of a warp for a dot that has them."""
    atom = mma_atom(op.atom.atom)
    pieces = layout_of(op.c.type).registers >> len(atom.c.bases["register"])
    halves = 2 if atom.halves and not target.has("fp8_products") else 1
    return pieces * (op.a.type.shape[-1] // atom.shape[2]) * halves


def accumulates_wider(op: aa.Dot) -> bool:
    """Whether multiply-adds hold the accumulator in a wider type than the dot's, and round it once, at the end."""
    element = op.c.type.element_type
    return isinstance(element, FloatType) and element.keyword not in ("f16", "bf16", "f32", "f64")
