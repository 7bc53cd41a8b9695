"""Branches between the blocks of a function.  Values reach a block as its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    AttrSizedOperandSegments,
    Block,
    DenseArrayAttr,
    HasParent,
    Terminator,
    Value,
    VerifyError,
    attribute,
    i1,
    operand,
    successor,
    variadic_operand,
    variadic_successor,
)

from .attributes import LoopAnnotationAttr
from .base import LLVMOp, integer_like

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class _BranchOp(LLVMOp):
    """Base of branches; `successor_operands(n)` are the values given to the arguments of successor `n`."""

    __slots__ = ()

    def successor_operands(self, number: int) -> Sequence[Value]:
        raise IndexError(number)

    def verify_op(self) -> None:
        for number, block in enumerate(self.successors):
            result = [value.type for value in self.successor_operands(number)]
            types = [argument.type for argument in block.arguments]
            if len(result) != len(types):
                raise VerifyError(
                    f"has {len(result)} operands for successor #{number}, but target block has {len(types)}"
                )
            for index, (a, b) in enumerate(zip(result, types)):
                if a is not b:
                    raise VerifyError(f"type mismatch for bb argument #{index} of successor #{number}")


class BrOp(_BranchOp, name="llvm.br", traits=(Terminator, HasParent("llvm.func"))):
    destOperands = variadic_operand()
    dest = successor()
    loop_annotation = attribute(LoopAnnotationAttr, "of the loop that the branch closes", optional=True)
    assembly_format = "$dest (`(` $destOperands^ `:` type($destOperands) `)`)? attr-dict"

    def successor_operands(self, number: int) -> Sequence[Value]:
        return self.destOperands


class CondBrOp(_BranchOp, name="llvm.cond_br", traits=(Terminator, AttrSizedOperandSegments, HasParent("llvm.func"))):
    condition = operand(i1)
    trueDestOperands = variadic_operand()
    falseDestOperands = variadic_operand()
    trueDest = successor()
    falseDest = successor()
    branch_weights = attribute(DenseArrayAttr, "how often the first and the second successor follow", optional=True)
    assembly_format = (
        "$condition `,` $trueDest (`(` $trueDestOperands^ `:` type($trueDestOperands) `)`)? `,`"
        " $falseDest (`(` $falseDestOperands^ `:` type($falseDestOperands) `)`)? attr-dict"
    )

    def successor_operands(self, number: int) -> Sequence[Value]:
        return (self.trueDestOperands, self.falseDestOperands)[number]

    def verify_op(self) -> None:
        super().verify_op()
        if self.branch_weights is not None and len(self.branch_weights) != 2:
            raise VerifyError("expects two branch weights")
        if self.trueDest is self.falseDest and self.trueDestOperands != self.falseDestOperands:
            # One edge of LLVM's control flow graph carries one value per phi.
            raise VerifyError("gives different operands to one block: select before branching")


class SwitchOp(_BranchOp, name="llvm.switch", traits=(Terminator, HasParent("llvm.func"))):
    """Jumps by an integer value; blocks reached by a case take no arguments."""

    value = operand(integer_like)
    case_values = attribute(DenseArrayAttr, "one value per case destination")
    defaultDestination = successor()
    caseDestinations = variadic_successor()
    assembly_format = (
        "$value `:` type($value) `,` `` custom<Cases>($defaultDestination, $case_values, $caseDestinations) attr-dict"
    )

    def successor_operands(self, number: int) -> Sequence[Value]:
        return ()

    def verify_op(self) -> None:
        super().verify_op()
        if len(self.case_values) != len(self.caseDestinations):
            raise VerifyError("expects as many case values as case destinations")
        if len(set(self.case_values)) != len(self.case_values):
            raise VerifyError("has duplicate case values")

    @classmethod
    def parse_Cases(cls, parser: Parser) -> Any:
        from tileiras.ir import i64

        default = parser.parse_successor()
        destinations: list[Block] = []

        def case() -> int:
            value = parser.parse_integer()
            parser.parse_punctuation(":")
            destinations.append(parser.parse_successor())
            return value

        values = parser.parse_comma_separated(case, "[", "]")
        return default, DenseArrayAttr(i64, values), destinations

    def print_Cases(
        self, printer: Printer, default: Block, values: DenseArrayAttr, destinations: Sequence[Block]
    ) -> None:
        printer.write(" ")
        printer.print_successor(default)
        printer.write(" [")
        for number, (value, block) in enumerate(zip(values, destinations)):
            if number:
                printer.write(", ")
            printer.write(f"{value}: ")
            printer.print_successor(block)
        printer.write("]")


class UnreachableOp(LLVMOp, name="llvm.unreachable", traits=(Terminator, HasParent("llvm.func"))):
    """Marks a place that is never reached.  NVPTX prints nothing for it: execution would run on into the next block."""

    assembly_format = "attr-dict"
