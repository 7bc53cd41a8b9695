"""Structured control flow: if, the two loops, and the terminators of their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from tileiras.ir import (
    AllTypesMatch,
    Attribute,
    Leaves,
    Location,
    MayNotTerminate,
    Pure,
    RecursiveMemoryEffects,
    Region,
    ReturnLike,
    Terminator,
    UnitAttr,
    Value,
    VerifyError,
    any_type,
    attribute,
    operand,
    region,
    variadic_operand,
    variadic_result,
)

from .constraints import ScalarI1, ScalarInt, any_value
from .operation import TileOp, parse_body, write_body
from .traits import EndsWith, GroupTypesMatch, NoRegionArguments, OneBlock, ParentOneOf
from .types import NAMESPACE, TensorViewType, write_type, write_types
from .view_types import TileView

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

    from .types import TileType, TokenType


def _types_text(types: Sequence[Any]) -> str:
    return ", ".join(f"'{type}'" for type in types)


def _refuse_views(types: Sequence[Any], words: Any) -> None:
    """Views describe memory; control flow does not pass them on."""
    for number, type in enumerate(types):
        for kind, name in ((TensorViewType, "tensor_view"), (TileView, "tile view")):
            if isinstance(type, kind):
                raise VerifyError(f"{words(number)} is a {name}, which is not supported")


def _parse_types(parser: Parser) -> list[Any]:
    return parser.parse_comma_separated(lambda: parser.parse_dialect_type(NAMESPACE))


# ---- terminators ---------------------------------------------------------------------------------------------------


class _Exit(TileOp):
    """Base of the operations that end a body and may hand values on."""

    group = "Control Flow"
    assembly_format = "attr-dict ($operands^ `:` custom<CudaTileType>(type($operands)))?"

    def _enclosing(self, *names: str) -> Any:
        """The nearest operation around this one with one of the names; only `if` may be in between."""
        parent = self.parent_op
        while parent is not None and parent.name not in names:
            if parent.name != IfOp.name:
                chain = "', '".join((*names, IfOp.name))
                raise VerifyError(
                    f"can only be nested within a ancestor chain of '{chain}' operations",
                    notes=[(parent.location, "see unexpected ancestor operation")],
                )
            parent = parent.parent_op
        return parent


class YieldOp(_Exit, name="cuda_tile.yield", since="13.1", opcode=0x6D):
    """Gives the values of a region to the operation around it."""

    traits = (Pure, ReturnLike, ParentOneOf("cuda_tile.if", "cuda_tile.reduce", "cuda_tile.scan"))
    operands = variadic_operand(any_value, "the values")


class BreakOp(_Exit, name="cuda_tile.break", since="13.1", opcode=0xA):
    """Leaves the innermost `loop`; the values are the loop's results."""

    traits = (ReturnLike, Leaves("cuda_tile.loop"), ParentOneOf("cuda_tile.if", "cuda_tile.loop"))
    operands = variadic_operand(any_value, "the results of the loop")

    def verify_op(self) -> None:
        loop = self._enclosing("cuda_tile.loop")
        if loop is None:
            return
        types, result = [r.type for r in loop.results], [v.type for v in self.operands]
        if types != result:
            raise VerifyError(
                f"operand types must correspond to the parent loop result types: ({_types_text(result)}) vs"
                f" ({_types_text(types)})"
            )


class ContinueOp(_Exit, name="cuda_tile.continue", since="13.1", opcode=0x11):
    """Starts the next iteration of the innermost loop with new loop-carried values."""

    traits = (
        Terminator,
        Leaves("cuda_tile.for", "cuda_tile.loop"),
        ParentOneOf("cuda_tile.for", "cuda_tile.if", "cuda_tile.loop"),
    )
    operands = variadic_operand(any_value, "initial values of the next iteration")

    def verify_op(self) -> None:
        loop = self._enclosing("cuda_tile.for", "cuda_tile.loop")
        if loop is None:
            return
        result = [value.type for value in self.operands]
        is_for = loop.name == ForOp.name
        types = [v.type for v in (loop.results if is_for else loop.operands)]
        if types != result:
            word, label = ("for", "return types") if is_for else ("loop", "iter_values")
            raise VerifyError(
                f"`{word}` is missing a valid terminator. `continue` op should have operand types that match the parent"
                f" loop {label}: ({_types_text(types)}), but found: ({_types_text(result)})",
                prefix=False,
            )


class ReturnOp(_Exit, name="cuda_tile.return", since="13.1", opcode=0x5C):
    """Ends the kernel for this tile block.

    A `loop` may hold one, as the vendor's 13.4 has it and its front end writes it; the public 13.3 release does not.
    """

    traits = (ReturnLike, Leaves("cuda_tile.entry"), ParentOneOf("cuda_tile.entry", "cuda_tile.if", "cuda_tile.loop"))
    operands = variadic_operand(any_type, "nothing: kernels return nothing")

    def verify_op(self) -> None:
        parent = self.parent_op
        while parent is not None and parent.name in (IfOp.name, LoopOp.name):
            parent = parent.parent_op
        if parent is None or "function_type" not in parent.attributes:
            *names, last = self.get_trait(ParentOneOf).names
            raise VerifyError(f"must be used within a {', '.join(names)}, or {last} operation")
        results = parent.attributes["function_type"].results  # type: ignore[attr-defined]
        name = parent.attributes["sym_name"].value  # type: ignore[attr-defined]
        if len(self.operands) != len(results):
            raise VerifyError(
                f"has {len(self.operands)} operands, but enclosing function (@{name}) returns {len(results)}"
            )
        if self.operands and parent.name == "cuda_tile.entry":
            raise VerifyError(f"has {len(self.operands)} operands, but entry function must return 0 operands")
        for number, (value, required) in enumerate(zip(self.operands, results)):
            if value.type is not required:
                raise VerifyError(
                    f"type of return operand {number} ('{value.type}') doesn't match function result type"
                    f" ('{required}') in function @{name}",
                    prefix=False,
                )


# ---- if ------------------------------------------------------------------------------------------------------------


class IfOp(TileOp, name="cuda_tile.if", since="13.1", opcode=0x32, group="Control Flow"):
    """Runs one of two regions; the values that it yields are the results."""

    traits = (
        NoRegionArguments,
        RecursiveMemoryEffects,
        OneBlock("thenRegion"),
        EndsWith("cuda_tile.yield", "cuda_tile.break", "cuda_tile.continue", "cuda_tile.return"),
    )
    condition = operand(ScalarI1, "which region runs")
    results = variadic_result(any_type, "the values that the region yields")
    thenRegion = region("runs when the condition holds")
    elseRegion = region("runs when it does not; without blocks it does nothing")
    assembly_format = (
        "$condition (`->` `(` custom<CudaTileType>(type($results))^ `)`)? custom<IfOpRegion>($thenRegion)"
        " (`else` custom<IfOpRegion>($elseRegion)^)? attr-dict"
    )

    @classmethod
    def create(
        cls,
        operands: Sequence[Value] = (),
        result_types: Sequence[TileType | TokenType] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        *rest: Location,
        **by_name: object,
    ) -> Any:
        """As Operation.create; a missing else region is one without blocks."""
        if len(regions) == 1:
            regions = (*regions, Region())
        return super().create(operands, result_types, attributes, regions, *rest, **by_name)

    def verify_op(self) -> None:
        types = [result.type for result in self.results]
        _refuse_views(types, lambda number: f"result type {number}")
        self._verify_yield(self.thenRegion, "then", types)
        if self.elseRegion.blocks:
            self._verify_yield(self.elseRegion, "else", types)
        elif types:
            raise VerifyError("has non-empty return type, must define else branch")

    def _verify_yield(self, body: Region, name: str, types: list[Any]) -> None:
        last = body.blocks[0].last
        if last is None or last.name != YieldOp.name:
            return
        result = [value.type for value in last.operands]
        if types and not result:
            raise VerifyError(f"has return type of {_types_text(types)} but {name} branch does not yield anything")
        if result and not types:
            raise VerifyError(f"does not return a value, but {name} branch yields {_types_text(result)}")
        if result != types:
            raise VerifyError(
                f"type does not match yield type, {name} branch yields {_types_text(result)} but op result type is"
                f" {_types_text(types)}"
            )


# ---- loops ---------------------------------------------------------------------------------------------------------


class _Loop(TileOp):
    """The shared verifier of both loops: carried values keep their types and are no views."""

    group = "Control Flow"

    def _verify_carried(self, inits: Sequence[Any], arguments: Sequence[Any]) -> None:
        if len(arguments) != len(inits):
            raise VerifyError(
                f"mismatch in number of region iterator values and loop iterator inits: {len(arguments)} vs"
                f" {len(inits)}"
            )
        for number, (init, argument) in enumerate(zip(inits, arguments)):
            _refuse_views([argument.type], lambda _: f"loop-carried value {number}")
            if init.type is not argument.type:
                raise VerifyError(
                    f"init value {number} and region iter_value {number} have different type: '{init.type}' !="
                    f" '{argument.type}'"
                )
        _refuse_views([result.type for result in self.results], lambda number: f"result type {number}")


def _parse_assignments(parser: Parser) -> tuple[list[Any], list[Any]]:
    """`(%inner = %outer, ...)`: arguments without types, and the operands that they start as."""

    def assignment() -> tuple[Any, Any]:
        argument = parser.parse_argument(with_type=False)
        parser.parse_punctuation("=")
        return argument, parser.parse_operand()

    pairs = parser.parse_comma_separated(assignment, "(", ")")
    return [argument for argument, _ in pairs], [use for _, use in pairs]


def _write_assignments(printer: Printer, arguments: Sequence[Any], inits: Sequence[Any]) -> None:
    printer.write("iter_values(")
    for number, (argument, init) in enumerate(zip(arguments, inits)):
        printer.write(", " if number else "")
        printer.print_operand(argument)
        printer.write(" = ")
        printer.print_operand(init)
    printer.write(")")


def _typed(arguments: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The arguments of a body with the types that come after them in the text."""
    for argument, type in zip(arguments, types):
        argument.type = type
    return list(arguments)


class ForOp(_Loop, name="cuda_tile.for", since="13.1", opcode=0x29):
    """Counts from the lower bound, included, to the upper, excluded, carrying values from iteration to iteration.

    The region takes the counter and the carried values; `continue` hands on the latter.  The step is positive.
    """

    traits = (
        AllTypesMatch("lowerBound", "upperBound", "step"),
        GroupTypesMatch("initValues", "resultValues"),
        RecursiveMemoryEffects,
        OneBlock("region"),
        EndsWith("cuda_tile.continue"),
    )
    lowerBound = operand(ScalarInt, "first value of the counter")
    upperBound = operand(ScalarInt, "where counting ends")
    step = operand(ScalarInt, "distance between two values")
    initValues = variadic_operand(any_type, "initial values of the first iteration")
    unsignedCmp = attribute(UnitAttr, "the bounds are compared as unsigned integers", optional=True, since="13.2")
    resultValues = variadic_result(any_type, "final values of the last iteration")
    region = region("the body")

    def verify_op(self) -> None:
        arguments = self.region.block.arguments
        if not arguments:
            raise VerifyError("expected at least one block argument for induction variable")
        if arguments[0].type is not self.lowerBound.type:
            raise VerifyError(
                f"expected induction variable to be same type as bounds and step: '{arguments[0].type}' vs"
                f" '{self.lowerBound.type}'"
            )
        self._verify_carried(self.initValues, arguments[1:])

    @property
    def induction_variable(self) -> Any:
        return self.region.block.arguments[0]

    def asm_result_names(self) -> list[tuple[Any, str]]:
        return [(self.results[0], "for")] if self.results else []

    def asm_block_argument_names(self, region: Region) -> list[tuple[Any, str]]:
        arguments = region.blocks[0].arguments if region.blocks else ()
        names = ("loopIdx", *(f"iterArg{number}" for number in range(len(arguments) - 1)))
        return list(zip(arguments, names))

    @classmethod
    def parse_custom(cls, parser: Parser) -> "ForOp":
        attributes: dict[str, Any] = {"unsignedCmp": UnitAttr()} if parser.parse_optional_keyword("unsigned") else {}
        counter = parser.parse_argument(with_type=False)
        parser.parse_keyword("in")
        parser.parse_punctuation("(")
        bounds = [parser.parse_operand()]
        parser.parse_keyword("to")
        bounds.append(parser.parse_operand())
        parser.parse_punctuation(",")
        parser.parse_keyword("step")
        bounds.append(parser.parse_operand())
        parser.parse_punctuation(")")
        parser.parse_punctuation(":")
        type = parser.parse_dialect_type(NAMESPACE)
        arguments: list[Any] = []
        inits: list[Any] = []
        types: list[Any] = []
        if parser.parse_optional_keyword("iter_values"):
            arguments, inits = _parse_assignments(parser)
            parser.parse_punctuation("->")
            parser.parse_punctuation("(")
            types = _parse_types(parser)
            parser.parse_punctuation(")")
            if len(inits) != len(types):
                parser.error(parser.location.offset, "mismatch in number of loop-carried values and defined values")
        body = parse_body(parser, cls, _typed([counter, *arguments], [type, *types]))
        attributes |= parser.parse_optional_attr_dict()
        values = parser.resolve_operands(bounds, type) + parser.resolve_operands(inits, types)
        return cls.create(values, types, attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        counter, *carried = self.region.blocks[0].arguments
        printer.write(" unsigned " if self.unsignedCmp is not None else " ")
        printer.print_operand(counter)
        for words, bound in ((" in (", self.lowerBound), (" to ", self.upperBound), (", step ", self.step)):
            printer.write(words)
            printer.print_operand(bound)
        printer.write(") : ")
        write_type(printer, counter.type)
        printer.write(" ")
        if carried:
            _write_assignments(printer, carried, self.initValues)
            printer.write(" -> (")
            write_types(printer, *(value.type for value in self.initValues))
            printer.write(") ")
        write_body(printer, self.region, ContinueOp.name)
        printer.print_optional_attr_dict(self.attributes, ("unsignedCmp",))


class LoopOp(_Loop, name="cuda_tile.loop", since="13.1", opcode=0x41):
    """Repeats its body until a `break`, carrying values from iteration to iteration.

    `continue` hands on the carried values; the results, whose types are their own, come from `break`.
    """

    traits = (
        RecursiveMemoryEffects,
        MayNotTerminate,
        OneBlock("region"),
        EndsWith("cuda_tile.continue", "cuda_tile.break", "cuda_tile.return"),
    )
    initValues = variadic_operand(any_type, "initial values of the first iteration")
    resultValues = variadic_result(any_type, "the values of the break")
    region = region("the body")

    def verify_op(self) -> None:
        arguments = self.region.block.arguments
        self._verify_carried(self.initValues, arguments)

    @classmethod
    def parse_custom(cls, parser: Parser) -> "LoopOp":
        arguments: list[Any] = []
        inits: list[Any] = []
        carried: list[Any] = []
        results: list[Any] = []
        if parser.parse_optional_keyword("iter_values"):
            arguments, inits = _parse_assignments(parser)
            parser.parse_punctuation(":")
            carried = _parse_types(parser)
            if len(arguments) != len(carried):
                parser.error(parser.offset, "found different number of iter_values and types")
            if parser.parse_optional_punctuation("->"):
                results = _parse_types(parser)
        elif parser.parse_optional_punctuation(":"):
            results = _parse_types(parser)
        body = parse_body(parser, cls, _typed(arguments, carried))
        attributes = parser.parse_optional_attr_dict()
        values = parser.resolve_operands(inits, carried)
        return cls.create(values, results, attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        inits = self.initValues
        printer.write(" ")
        if inits:
            _write_assignments(printer, self.region.blocks[0].arguments, inits)
            printer.write(" ")
        if inits or self.results:
            printer.write(": ")
        if inits:
            write_types(printer, *(value.type for value in inits))
            printer.write(" -> " if self.results else " ")
        if self.results:
            write_types(printer, *(result.type for result in self.results))
            printer.write(" ")
        write_body(printer, self.region, ContinueOp.name)
        printer.print_optional_attr_dict(self.attributes)
