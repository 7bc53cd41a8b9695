"""Bitwise logic on integers, element by element."""

from __future__ import annotations

from tileiras.ir import Commutative

from .ops_arith_integer import IntBinary


class AndIOp(IntBinary, name="cuda_tile.andi", since="13.1", opcode=0x4, group="Bitwise", traits=(Commutative,)):
    """Bitwise and."""


class OrIOp(IntBinary, name="cuda_tile.ori", since="13.1", opcode=0x52, group="Bitwise", traits=(Commutative,)):
    """Bitwise or."""


class XOrIOp(IntBinary, name="cuda_tile.xori", since="13.1", opcode=0x6C, group="Bitwise", traits=(Commutative,)):
    """Bitwise exclusive or."""
