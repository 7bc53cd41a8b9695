"""Operations of the scf dialect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects.arith import bool_like, constant_integer, integer_like
from tileiras.ir import (
    HasParent,
    Location,
    MayNotTerminate,
    Operation,
    Pure,
    RecursiveMemoryEffects,
    Region,
    ReturnLike,
    SingleBlock,
    Terminator,
    UnitAttr,
    Value,
    VerifyError,
    attribute,
    i1,
    operand,
    region,
    variadic_operand,
    variadic_result,
)

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class YieldOp(Operation, name="scf.yield"):
    traits = (Pure, ReturnLike, Terminator, HasParent("scf.for", "scf.if", "scf.while"))
    results_ = variadic_operand(doc="the values that the region passes on")
    assembly_format = "attr-dict ($results_^ `:` type($results_))?"


class ConditionOp(Operation, name="scf.condition", traits=(Pure, Terminator, HasParent("scf.while"))):
    """Ends the "before" region of a `while`: continues to "after" with `args`, or leaves the loop with them."""

    condition = operand(bool_like)
    args = variadic_operand()
    assembly_format = "`(` $condition `)` attr-dict ($args^ `:` type($args))?"


def _expect_blocks(*regions: Region) -> None:
    """Raise VerifyError where a region has no code."""
    if any(not item.blocks for item in regions):
        raise VerifyError("expects a non-empty block")


class ForOp(Operation, name="scf.for", traits=(SingleBlock, RecursiveMemoryEffects)):
    """`for iv = lower; iv < upper; iv += step`; the comparison is signed unless `unsignedCmp`."""

    lower_bound = operand(integer_like)
    upper_bound = operand(integer_like)
    step = operand(integer_like)
    init_args = variadic_operand(doc="values before the first iteration")
    unsignedCmp = attribute(UnitAttr, optional=True)
    results_ = variadic_result(doc="values after the last iteration")
    body = region("arguments: the induction variable, then the carried values")

    @property
    def induction_variable(self) -> Any:
        return self.body.block.arguments[0]

    @property
    def iter_args(self) -> tuple:
        return self.body.block.arguments[1:]

    @property
    def yield_op(self) -> YieldOp:
        return self.body.block.last

    @property
    def trip_count(self) -> int | None:
        """How often the body runs, where bounds and step are constants."""
        lower, upper, step = map(constant_integer, (self.lower_bound, self.upper_bound, self.step))
        if lower is None or upper is None or step is None or step <= 0:
            return None
        if self.unsignedCmp is not None and (lower < 0 or upper < 0):
            return None
        return max(0, -(-(upper - lower) // step))

    def replace_with_additional_yields(self, init_args: Sequence[Value]) -> "ForOp":
        """Replace this loop by one that carries further values, which the body already has arguments for
        and yields; these are the values before the first iteration."""
        types = [*(r.type for r in self.results), *(v.type for v in init_args)]
        new = self._carrying((*self.init_args, *init_args), types)
        self.replace_all_uses_with(new.results[: len(self.results)])
        self.erase()
        return new

    def without_carried(self, dead: Collection[int]) -> "ForOp":
        """Replace this loop by one without the values with these numbers, which nothing uses,
        neither inside nor after it."""
        indexes = [index for index in range(len(self.init_args)) if index not in dead]
        end = self.yield_op
        end.operands = [end.operands[index] for index in indexes]
        for index in sorted(dead, reverse=True):
            self.body.block.erase_argument(1 + index)
        new = self._carrying(
            [self.init_args[index] for index in indexes], [self.results[index].type for index in indexes]
        )
        for index, result in zip(indexes, new.results):
            self.results[index].replace_all_uses_with(result)
        self.erase()
        return new

    def with_carried(self, init_args: Sequence[Value]) -> "ForOp":
        """Replace this loop by one whose body carries values of other types, which it takes and yields
        already; these are the values before the first iteration."""
        new = self._carrying(init_args, [value.type for value in init_args])
        self.replace_all_uses_with(new.results)
        self.erase()
        return new

    def _carrying(self, init_args: Sequence[Value], types: Sequence[Any]) -> "ForOp":
        """A loop in front of this one that takes over its body."""
        operands = (self.lower_bound, self.upper_bound, self.step, *init_args)
        body = Region().take_blocks(self.body)
        new = ForOp.create(operands, types, dict(self.attributes), (body,), location=self.location)
        self.parent.insert_before(new, self)
        return new

    def verify_op(self) -> None:
        _expect_blocks(self.body)
        block = self.body.block
        if len(block.arguments) != 1 + len(self.init_args):
            raise VerifyError("mismatch in number of loop-carried values and defined values")
        if block.arguments[0].type is not self.lower_bound.type:
            raise VerifyError("expected induction variable to be same type as bounds and step")
        if self.upper_bound.type is not self.lower_bound.type or self.step.type is not self.lower_bound.type:
            raise VerifyError("failed to verify that all of {lowerBound, upperBound, step} have same type")
        yielded = block.last.operands
        if len(yielded) != len(self.results):
            raise VerifyError("mismatch in number of loop-carried values and defined values")
        carried = zip(self.init_args, self.iter_args, yielded, self.results)
        for number, (init, argument, value, out) in enumerate(carried):
            if not init.type is argument.type is value.type is out.type:
                raise VerifyError(f"types mismatch between {number}th iter operand and defined value")

    def print_custom(self, printer: Printer) -> None:
        printer.write(" unsigned " if self.unsignedCmp is not None else " ")
        printer.print_operand(self.induction_variable)
        printer.write(" = ")
        printer.print_operand(self.lower_bound)
        printer.write(" to ")
        printer.print_operand(self.upper_bound)
        printer.write(" step ")
        printer.print_operand(self.step)
        if self.init_args:
            printer.write(" iter_args(")
            for number, (argument, init) in enumerate(zip(self.iter_args, self.init_args)):
                printer.write(", " if number else "")
                printer.print_operand(argument)
                printer.write(" = ")
                printer.print_operand(init)
            printer.write(") -> (")
            for number, out in enumerate(self.results):
                printer.write(", " if number else "")
                printer.print_type(out.type)
            printer.write(")")
        printer.write(" : ")
        printer.print_type(self.lower_bound.type)
        printer.write(" ")
        printer.print_region(self.body, entry_arguments=False)
        printer.print_optional_attr_dict(self.attributes, elided=("unsignedCmp",))

    @classmethod
    def parse_custom(cls, parser: Parser) -> "ForOp":
        unsigned = parser.parse_optional_keyword("unsigned")
        variable = parser.parse_argument(with_type=False)
        parser.parse_punctuation("=")
        lower = parser.parse_operand()
        parser.parse_keyword("to")
        upper = parser.parse_operand()
        parser.parse_keyword("step")
        step = parser.parse_operand()
        arguments: list[Any] = []
        inits: list[Any] = []
        types: list[Any] = []
        if parser.parse_optional_keyword("iter_args"):

            def pair() -> None:
                arguments.append(parser.parse_argument(with_type=False))
                parser.parse_punctuation("=")
                inits.append(parser.parse_operand())

            parser.parse_comma_separated(pair, "(", ")")
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated(parser.parse_type, "(", ")")
            if len(types) != len(inits):
                raise parser.error(parser.offset, "mismatch in number of loop-carried values and defined values")
        parser.parse_punctuation(":")
        counter = parser.parse_type()
        variable.type = counter
        for argument, type in zip(arguments, types):
            argument.type = type
        operands = [parser.resolve_operand(bound, counter) for bound in (lower, upper, step)]
        operands += [parser.resolve_operand(init, type) for init, type in zip(inits, types)]
        body = parser.parse_region([variable, *arguments])
        ensure_yield(body, parser.location)
        attributes = parser.parse_optional_attr_dict()
        if unsigned:
            attributes["unsignedCmp"] = UnitAttr()
        return cls.create(operands, types, attributes, (body,), location=parser.location)


class IfOp(Operation, name="scf.if", traits=(SingleBlock, RecursiveMemoryEffects)):
    condition = operand(i1)
    results_ = variadic_result()
    then_region = region()
    else_region = region("empty when there is no else")

    def without_results(self, dead: Collection[int]) -> "IfOp":
        """Replace this branch by one without the results with these numbers, which nothing
        uses."""
        numbers = [number for number in range(len(self.results)) if number not in dead]
        for part in self.regions:
            end = part.block.last
            end.operands = [end.operands[number] for number in numbers]
        regions = [Region().take_blocks(part) for part in self.regions]
        types = [self.results[number].type for number in numbers]
        new = IfOp.create(self.operands, types, dict(self.attributes), regions, location=self.location)
        self.parent.insert_before(new, self)
        for number, result in zip(numbers, new.results):
            self.results[number].replace_all_uses_with(result)
        self.erase()
        return new

    def verify_op(self) -> None:
        _expect_blocks(self.then_region)
        if self.results and not self.else_region.blocks:
            raise VerifyError("must have an else block if defining values")
        for block in (*self.then_region.blocks, *self.else_region.blocks):
            yielded = [value.type for value in block.last.operands]
            if yielded != [out.type for out in self.results]:
                raise VerifyError("region yields types that differ from the operation's results")

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_operand(self.condition)
        if self.results:
            printer.write(" -> (")
            for number, out in enumerate(self.results):
                printer.write(", " if number else "")
                printer.print_type(out.type)
            printer.write(")")
        printer.write(" ")
        printer.print_region(self.then_region, entry_arguments=False)
        if self.else_region.blocks:
            printer.write(" else ")
            printer.print_region(self.else_region, entry_arguments=False)
        printer.print_optional_attr_dict(self.attributes)

    @classmethod
    def parse_custom(cls, parser: Parser) -> "IfOp":
        condition = parser.resolve_operand(parser.parse_operand(), i1)
        types = []
        if parser.parse_optional_punctuation("->"):
            types = parser.parse_comma_separated(parser.parse_type, "(", ")")
        then_region = parser.parse_region()
        ensure_yield(then_region, parser.location)
        else_region = Region()
        if parser.parse_optional_keyword("else"):
            else_region = parser.parse_region()
            ensure_yield(else_region, parser.location)
        attributes = parser.parse_optional_attr_dict()
        return cls.create((condition,), types, attributes, (then_region, else_region), location=parser.location)


class WhileOp(Operation, name="scf.while", traits=(SingleBlock, RecursiveMemoryEffects, MayNotTerminate)):
    """Executes `before`; while its condition is true, executes `after` with its arguments and repeats with the values
    that `after` yields."""

    inits = variadic_operand()
    results_ = variadic_result()
    before = region()
    after = region()

    def verify_op(self) -> None:
        _expect_blocks(self.before, self.after)
        if not isinstance(self.before.block.last, ConditionOp):
            raise VerifyError("expects the 'before' region to terminate with 'scf.condition'")
        if not isinstance(self.after.block.last, YieldOp):
            raise VerifyError("expects the 'after' region to terminate with 'scf.yield'")


def ensure_yield(body: Region, location: Location) -> None:
    """Give a region that the text ended without a terminator its empty `scf.yield`."""
    from tileiras.ir import Block

    if not body.blocks:
        body.append(Block())
    block = body.blocks[-1]
    if block.last is None or not block.last.has_trait(Terminator):
        block.append(YieldOp.create(location=location))


def loops_around(op: Operation) -> Iterator[ForOp | WhileOp]:
    """The loops that an operation is in, innermost first."""
    outer = op.parent_op
    while outer is not None:
        if isinstance(outer, (ForOp, WhileOp)):
            yield outer
        outer = outer.parent_op
