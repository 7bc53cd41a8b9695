"""Operations that tie variables to values; they compute nothing and have no results."""

from __future__ import annotations

from tileiras.ir import MemoryWrite, Operation, attribute, operand

from .attributes import DILocalVariableAttr


class _VariableOp(Operation):
    # An effect that nothing else sees: it is not removed, and stays where it is among what it stands between.
    traits = (MemoryWrite,)


class ValueOp(_VariableOp):
    """From here on the variable is this value."""

    name = "debuginfo.value"
    value = operand()
    variable = attribute(DILocalVariableAttr)
    assembly_format = "$value `,` qualified($variable) attr-dict `:` type($value)"


class AddrOp(_VariableOp):
    """From here on the variable is what memory at this address holds."""

    name = "debuginfo.addr"
    address = operand()
    variable = attribute(DILocalVariableAttr)
    assembly_format = "$address `,` qualified($variable) attr-dict `:` type($address)"


class DeclareOp(_VariableOp):
    """The variable lives at this address, for the whole of its scope."""

    name = "debuginfo.declare"
    address = operand()
    variable = attribute(DILocalVariableAttr)
    assembly_format = "$address `,` qualified($variable) attr-dict `:` type($address)"
