"""Attributes of cuda_tile: the enums, assumptions, optimization hints.

Debug information has a file of its own (`debug_info`).  `as_integer` enums are plain 32-bit integers in the generic
form, `angled` ones are `<word>` where an assembly format names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tileiras.ir import Attribute, DictAttr, EnumAttr, IntegerAttr, IntegerType, Operation, StringAttr, VerifyError, i1

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class SignednessAttr(EnumAttr, name="cuda_tile.signedness", since="13.1", cases={"unsigned": 0, "signed": 1}):
    """How the bits of an integer operand are read."""

    angled = True


class IntegerOverflowAttr(EnumAttr, name="cuda_tile.overflow", since="13.1"):
    """The permitted assumption about wrap-around; a wrong assumption is undefined behaviour."""

    angled = True
    cases = {"none": 0, "no_signed_wrap": 1, "no_unsigned_wrap": 2, "no_wrap": 3}


class RoundingModeAttr(EnumAttr, name="cuda_tile.rounding", since="13.1"):
    """How an inexact result is rounded, or how exact it has to be."""

    angled = True
    cases = {
        "nearest_even": 0,
        "zero": 1,
        "negative_inf": 2,
        "positive_inf": 3,
        "approx": 4,
        "full": 5,
        "nearest_int_to_zero": 6,
        "nearest_away": 7,
    }
    case_since = {"nearest_away": "13.4"}


class ComparisonOrderingAttr(EnumAttr, name="cuda_tile.comparison_ordering", since="13.1"):
    """The result of a floating-point comparison with a NaN operand: ordered false, unordered true."""

    angled = True
    cases = {"unordered": 0, "ordered": 1}


class ComparisonPredicateAttr(EnumAttr, name="cuda_tile.comparison_predicate", since="13.1"):
    """The relation that a comparison tests."""

    angled = True
    cases = {
        "equal": 0,
        "not_equal": 1,
        "less_than": 2,
        "less_than_or_equal": 3,
        "greater_than": 4,
        "greater_than_or_equal": 5,
    }


class AtomicRMWModeAttr(EnumAttr, name="cuda_tile.atomic_rmw_mode", since="13.1"):
    """How an atomic operation combines its operand with the value in memory."""

    as_integer = True
    cases = {"and": 0, "or": 1, "xor": 2, "add": 3, "addf": 4, "max": 5, "min": 6, "umax": 7, "umin": 8, "xchg": 9}


class MultimemReductionKindAttr(EnumAttr, name="cuda_tile.multimem_reduction_kind", since="13.5"):
    """How a multicast memory operation combines the copies."""

    cases = {"add": 0, "min": 1, "max": 2, "and": 3, "or": 4, "xor": 5, "umin": 6, "umax": 7}


class MemoryScopeAttr(EnumAttr, name="cuda_tile.memory_scope", since="13.1"):
    """Among which threads an access is ordered: one tile block, the device, or the whole system."""

    as_integer = True
    cases = {"tl_blk": 0, "device": 1, "sys": 2}


class MemoryOrderingSemanticsAttr(EnumAttr, name="cuda_tile.memory_ordering_semantics", since="13.1"):
    """The memory ordering of an access; weak accesses must not race."""

    as_integer = True
    cases = {"weak": 0, "relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}


class PaddingValueAttr(EnumAttr, name="cuda_tile.padding_value", since="13.1"):
    """The value that a load returns for elements outside the tensor; all but zero need a floating-point element
    type."""

    cases = {"zero": 0, "neg_zero": 1, "nan": 2, "pos_inf": 3, "neg_inf": 4}


class SymbolVisibilityAttr(EnumAttr, name="cuda_tile.symbol_visibility", since="13.3"):
    """Whether a symbol can be seen outside its module."""

    angled = True
    cases = {"public": 0, "private": 1}


class PointerAttr(EnumAttr, name="cuda_tile.ptr_attr", since="13.4", cases={"none": 0, "unicast": 1, "multicast": 2}):
    """The known memory of a pointer: a multicast address stands for one copy per device."""

    case_since = {"unicast": "13.5", "multicast": "13.5"}


# ---- assumptions ---------------------------------------------------------------------------------------------------


def _tile_of(op: Operation, *elements: str) -> Any:
    """The type of the value that `op` assumes something about, None unless a tile of such elements."""
    type: Any = op.results[0].type
    if type.name != "cuda_tile.tile":
        return None
    element = type.element_type
    kind = "integer" if isinstance(element, IntegerType) else "pointer" if element.name == "cuda_tile.ptr" else "float"
    return type if kind in elements else None


class AssumePredicate(Attribute):
    """Base of the predicates of `assume`."""

    description = "AssumePredicateAttrInterface instance"

    def verify_assume(self, op: Operation) -> None:
        """Raise VerifyError if the predicate does not apply to the operand of the operation `op`."""
        raise VerifyError(f"'{self.name}' is not an assumption")


class DivByAttr(AssumePredicate, name="cuda_tile.div_by", since="13.1", parameters=("divisor", "every", "along")):
    """Elements are divisible by `divisor`; with every/along each `every`-th along a dimension, the rest count up."""

    bytecode_tag: ClassVar[int] = 8

    divisor: int
    every: int | None
    along: int | None

    MAX_DIVISOR = 1 << 62

    def verify_assume(self, op: Operation) -> None:
        name, divisor, every, along = self.name, self.divisor, self.every, self.along
        if divisor <= 0 or divisor & (divisor - 1):
            raise VerifyError(f"'{name}' divisor must be a power of 2")
        if (every is None) != (along is None):
            raise VerifyError(f"'{name}' 'every'/'along' must be used in combination")
        if divisor > self.MAX_DIVISOR:
            raise VerifyError(f"'{name}' divisor is too large")
        constrained: Any = op.results[0].type
        refused = f"'{name}' 'every'/'along' cannot be used if the constrained value is a "
        if constrained.name == "cuda_tile.tensor_view":
            if every is not None:
                raise VerifyError(refused + "tensor_view")
            return
        if constrained.name == "cuda_tile.tile" and constrained.rank == 0 and every is not None:
            raise VerifyError(refused + "0D tile")
        tile = _tile_of(op, "integer", "pointer")
        if tile is None:
            raise VerifyError(f"'{name}' is valid only for tile of integer/pointer or tensor_view values")
        if every is None or along is None:
            return
        if not 0 <= along < tile.rank:
            raise VerifyError(f"'{name}' every_dim ({along}) must be >= 0 and < tile rank ({tile.rank})")
        if not 0 <= every <= tile.shape[along]:
            raise VerifyError(
                f"expected '{name}' every_dim to be within 0 and the size of the respective dimension"
                f" ({tile.shape[along]})"
            )

    def print_parameters(self, printer: Printer) -> None:
        every = f", every {self.every} along {self.along}" if self.every is not None else ""
        printer.write(f"<{self.divisor}{every}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "DivByAttr":
        parser.parse_punctuation("<")
        divisor = parser.parse_optional_integer(below=1 << 64)
        if divisor is None:
            parser.error(parser.offset, "failed to parse parameter 'divisor' which is expected to be an integer")
        every = along = None
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("every")
            every = parser.parse_integer()
            parser.parse_keyword("along")
            along = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(divisor, every, along)  # type: ignore[return-value]


class SameElementsAttr(AssumePredicate, name="cuda_tile.same_elements", since="13.1", parameters=("elements",)):
    """Along each dimension, runs of `values[dim]` elements are equal."""

    bytecode_tag: ClassVar[int] = 9

    elements: tuple[int, ...]

    def __new__(cls, elements: Sequence[int]) -> "SameElementsAttr":
        return cls.intern((tuple(elements),))  # type: ignore[return-value]

    def verify_assume(self, op: Operation) -> None:
        tile = _tile_of(op, "integer", "pointer")
        if tile is None:
            raise VerifyError(f"'{self.name}' is valid only for tile of integer/pointer values")
        if len(self.elements) != tile.rank:
            raise VerifyError(
                f"expected number of values in '{self.name}' ({len(self.elements)}) to match rank of constrained tile"
                f" ({tile.rank})"
            )
        for number, (value, size) in enumerate(zip(self.elements, tile.shape)):
            if not 0 <= value <= size:
                raise VerifyError(
                    f"expected '{self.name}' value {number} to be within 0 and the size of the respective dimension"
                    f" ({size})"
                )

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<[{', '.join(map(str, self.elements))}]>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "SameElementsAttr":
        parser.parse_punctuation("<")
        values = parser.parse_comma_separated(parser.parse_integer, "[", "]")
        parser.parse_punctuation(">")
        return cls(values)


class BoundedAttr(AssumePredicate, name="cuda_tile.bounded", since="13.1", parameters=("lb", "ub")):
    """Elements, read as signed, lie in `lb` ... `ub`, both included; None leaves an end open."""

    bytecode_tag: ClassVar[int] = 12

    lb: int | None
    ub: int | None

    def verify_assume(self, op: Operation) -> None:
        tile = _tile_of(op, "integer")
        if tile is None:
            raise VerifyError(f"'{self.name}' is valid only for tile of integer values")
        limit = 1 << (tile.element_type.width - 1)
        for end, bound in (("lower", self.lb), ("upper", self.ub)):
            if bound is not None and not -limit <= bound < limit:
                raise VerifyError(f"'{self.name}' expects {end} bound to be within [{-limit}, {limit - 1}]")
        if self.lb is not None and self.ub is not None and self.lb > self.ub:
            raise VerifyError(f"'{self.name}' expects lower bound to be less than or equal to upper bound")

    def print_parameters(self, printer: Printer) -> None:
        lower, upper = ("?" if bound is None else bound for bound in (self.lb, self.ub))
        printer.write(f"<{lower}, {upper}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "BoundedAttr":
        def bound() -> int | None:
            number = parser.parse_optional_integer()
            if number is None:
                parser.parse_optional_punctuation("?")
            return number

        parser.parse_punctuation("<")
        lower = bound()
        parser.parse_punctuation(",")
        upper = bound()
        parser.parse_punctuation(">")
        return cls(lower, upper)  # type: ignore[return-value]


# ---- hints ---------------------------------------------------------------------------------------------------------


HINT_ARCHITECTURES = (
    "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121", "default",
)  # fmt: skip
"""Architectures that hints may be given for, and the default."""

SINGLE_CTA_ARCHITECTURES = ("sm_80", "sm_86", "sm_87", "sm_88", "sm_89")
"""Architectures without thread block clusters (PTX ISA, .reqnctapercluster needs sm_90)."""

HINT_RANGES = {
    "num_cta_in_cga": ("power-of-two ≤ 16", tuple(1 << n for n in range(5))),
    "num_worker_warps_per_cta": ("power-of-two ≤ 32", tuple(1 << n for n in range(6))),
    "latency": ("integer value in the range [1, 10] is", range(1, 11)),
    "occupancy": ("integer value in the range [1, 32] is", range(1, 33)),
}
"""Hints that are numbers: the expected values as a diagnostic describes them, and the valid numbers."""

HINTS_OF = {
    "cuda_tile.entry": ("num_cta_in_cga", "num_worker_warps_per_cta", "occupancy"),
    "cuda_tile.load_ptr_tko": ("latency",),
    "cuda_tile.store_ptr_tko": ("latency",),
    "cuda_tile.load_view_tko": ("latency", "allow_tma"),
    "cuda_tile.store_view_tko": ("latency", "allow_tma"),
}
"""Operation -> the hints that apply to it."""


def hint_problem(context: str, key: str, value: IntegerAttr | StringAttr) -> str | None:
    """The error in the hint `key` for architecture `context`; None if it is valid."""
    place = f"{context}.{key}"
    if key == "allow_tma":
        switch = isinstance(value, IntegerAttr) and value.type is i1
        return None if switch else f"boolean value expected for {place}"
    if key not in HINT_RANGES:
        return f"unknown param {key} for {context}"
    if not isinstance(value, IntegerAttr):
        return f"integer value expected for {place}"
    kind, allowed = HINT_RANGES[key]
    if key == "num_cta_in_cga" and context in SINGLE_CTA_ARCHITECTURES and value.value != 1:
        return f"expected 1 for {place}"
    if value.value in allowed:
        return None
    return f"{kind} expected for {place}" if kind.endswith(" is") else f"expected {kind} for {place}"


class OptimizationHintsAttr(Attribute, name="cuda_tile.optimization_hints", since="13.1", parameters=("value",)):
    """Advice per architecture: architecture name (or `default`) -> dictionary of hints."""

    bytecode_tag: ClassVar[int] = 11

    value: DictAttr

    DEFAULT = "default"

    def __new__(cls, value: DictAttr | Mapping[str, DictAttr] = ()) -> "OptimizationHintsAttr":
        return cls.intern((value if isinstance(value, DictAttr) else DictAttr(value),))  # type: ignore[return-value]

    def verify(self) -> None:
        for key, entry in self.value.items:
            if not isinstance(entry, DictAttr):
                raise VerifyError(
                    f"expected dictionary attribute for optimization_hints entry `{key}` got value={entry}",
                    prefix=False,
                )

    def hint(self, gpu_name: str, key: str) -> Any:
        """The hint `key` for an architecture, its `default` otherwise; None if it is absent or invalid.

        An int, or a bool for switches.
        """
        for context in (gpu_name, self.DEFAULT):
            entry = self.value.get(context)
            result = entry.get(key) if isinstance(entry, DictAttr) else None
            if isinstance(result, IntegerAttr):
                if hint_problem(gpu_name, key, result) is not None:
                    return None
                return bool(result.value) if result.type is i1 else result.value
        return None

    def problems(self, operation: str) -> list[str]:
        """The errors in the hints of an operation (its name); hints are advice, so that no compilation fails for
        them."""
        result = []
        for context, entry in self.value.items:
            if context not in HINT_ARCHITECTURES:
                result.append(f"unknown hint key {context}")
                continue
            for key, value in entry.items:  # type: ignore[attr-defined]
                if key not in HINTS_OF.get(operation, ()):
                    result.append(f"{key} is not known hint for current Operation")
                    continue
                problem = hint_problem(context, key, value)
                if problem is not None:
                    result.append(problem)
        return result

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        for number, (context, entry) in enumerate(self.value.items):
            printer.write(", " if number else "")
            printer.print_keyword_or_string(context)
            printer.write(" = {")
            for place, (key, value) in enumerate(entry.items):  # type: ignore[attr-defined]
                printer.write(", " if place else "")
                printer.print_keyword_or_string(key)
                printer.write(" = ")
                if isinstance(value, IntegerAttr) and value.type is not i1:
                    printer.write(str(value.value))
                else:
                    printer.print_attribute(value)
            printer.write("}")
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "OptimizationHintsAttr":
        entries: dict[str, Any] = {}

        def entry() -> None:
            key = parser.parse_keyword_or_string()
            parser.parse_punctuation("=")
            value = parser.parse_attribute()
            if key in entries:
                parser.error(parser.offset, f"duplicate optimization_hints key `{key}`")
            if not isinstance(value, DictAttr):
                parser.error(
                    parser.offset,
                    f"expected dictionary attribute for optimization_hints entry `{key}` got value={value}",
                )
            entries[key] = value

        parser.parse_punctuation("<")
        if not parser.parse_optional_punctuation(">"):
            parser.parse_comma_separated(entry)
            parser.parse_punctuation(">")
        return cls(entries)
