"""Bitwise logic on integers, element by element."""

from __future__ import annotations

from tileiras.ir import Commutative

from .ops_arith_integer import IntBinary


class AndIOp(IntBinary):
    """Bitwise and."""

    name = "cuda_tile.andi"
    group = "Bitwise"
    since = "13.1"
    opcode = 0x4
    traits = (Commutative,)


class OrIOp(IntBinary):
    """Bitwise or."""

    name = "cuda_tile.ori"
    group = "Bitwise"
    since = "13.1"
    opcode = 0x52
    traits = (Commutative,)


class XOrIOp(IntBinary):
    """Bitwise exclusive or."""

    name = "cuda_tile.xori"
    group = "Bitwise"
    since = "13.1"
    opcode = 0x6C
    traits = (Commutative,)
