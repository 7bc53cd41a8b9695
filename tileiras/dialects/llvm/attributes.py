"""Attributes of the llvm dialect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from tileiras.ir import Attribute, EnumAttr, VerifyError

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class _FlagsAttr(Attribute):
    """A set of flags out of a fixed list, kept and printed in the list's order; empty is `none`."""

    parameters = ("flags",)
    all_flags: ClassVar[tuple[str, ...]] = ()
    flags: tuple[str, ...]

    def __new__(cls, *flags: str | Iterable[str]) -> _FlagsAttr:
        flag = flags[0] if len(flags) == 1 and not isinstance(flags[0], str) else flags
        flag_set = set(flag)
        unknown = sorted(flag_set - set(cls.all_flags))
        if unknown:
            raise VerifyError(f"expected one of [{', '.join(cls.all_flags)}], got {unknown[0]}", prefix=False)
        return cls.intern((tuple(f for f in cls.all_flags if f in flag_set),))  # type: ignore[return-value]

    def __contains__(self, flag: str) -> bool:
        return flag in self.flags

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{', '.join(self.flags) or 'none'}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> _FlagsAttr:
        words = parser.parse_comma_separated(parser.parse_any_keyword, "<", ">")
        return cls([word for word in words if word != "none"])


class FastmathFlagsAttr(_FlagsAttr, name="llvm.fastmath"):
    """LLVM's fast-math flags, for the one operation that carries them."""

    all_flags = ("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc")


class IntegerOverflowFlagsAttr(_FlagsAttr, name="llvm.overflow", all_flags=("nsw", "nuw")):
    """Overflows whose result is poison."""


class ICmpPredicateAttr(EnumAttr, name="llvm.icmp_predicate"):
    cases = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, "ult": 6, "ule": 7, "ugt": 8, "uge": 9}


class FCmpPredicateAttr(EnumAttr, name="llvm.fcmp_predicate"):
    """`_false` and `_true` are the constant predicates."""

    cases = {"_false": 0, "oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "one": 6, "ord": 7,
             "ueq": 8, "ugt": 9, "uge": 10, "ult": 11, "ule": 12, "une": 13, "uno": 14, "_true": 15}  # fmt: skip


class AtomicOrderingAttr(EnumAttr, name="llvm.atomic_ordering"):
    cases = {"not_atomic": 0, "unordered": 1, "monotonic": 2, "acquire": 4, "release": 5, "acq_rel": 6, "seq_cst": 7}


class AtomicBinOpAttr(EnumAttr, name="llvm.atomicrmw_op"):
    cases = {"xchg": 0, "add": 1, "sub": 2, "and": 3, "nand": 4, "or": 5, "xor": 6, "max": 7, "min": 8,
             "umax": 9, "umin": 10, "fadd": 11, "fsub": 12}  # fmt: skip

    # In MLIR's text `_and`, `_or`, `_xor` and `_nand` avoid C++ keywords.
    spelled: ClassVar[dict[str, str]] = {"and": "_and", "nand": "nand", "or": "_or", "xor": "_xor"}


class LoopAnnotationAttr(Attribute, name="llvm.loop_annotation", parameters=("unroll_disable",)):
    """A property of the loop that a branch closes: whether its body may be repeated."""

    def __new__(cls, unroll_disable: bool) -> LoopAnnotationAttr:
        return cls.intern((unroll_disable,))  # type: ignore[return-value]

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<unroll = <disable = {'true' if self.unroll_disable else 'false'}>>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> LoopAnnotationAttr:
        for word in ("unroll", "disable"):
            parser.parse_punctuation("<")
            parser.parse_keyword(word)
            parser.parse_punctuation("=")
        disable = parser.parse_any_keyword()
        if disable not in ("true", "false"):
            raise VerifyError(f"expected true or false, got {disable}", prefix=False)
        for _ in range(2):
            parser.parse_punctuation(">")
        return cls(disable == "true")


class LinkageAttr(EnumAttr, name="llvm.linkage", cases={"private": 0, "internal": 1, "external": 10}): ...


SYNC_SCOPES = ("", "device", "cluster", "block")
"""NVPTX's scope names: system, gpu, cluster, cta (LLVM NVPTX usage guide)."""
