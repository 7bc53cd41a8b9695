"""Operations with the semantics of a cuda_tile operation, and the translation of their attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from tileiras.ir import Operation, TensorType, Value

Words = Mapping[str, str | None]
"""Attribute of the cuda_tile operation -> its word, None for one that is there without a value."""


class Typed:
    """A value as the interpreter's meanings look at one: every type has elements and a shape."""

    __slots__ = ("type", "value")

    def __init__(self, value: Value) -> None:
        type = value.type
        if isinstance(type, TensorType):
            shape, element = type.shape, type.element_type
        else:
            shape, element = (), type
        self.value = value
        self.type = SimpleNamespace(shape=shape, element_type=element)


class Seen:
    """An operation of a lower level as one of cuda_tile."""

    def __init__(self, op: Operation, name: str, words: Words) -> None:
        self.name = name
        self.location = op.location
        self.regions = op.regions
        self.operands = [Typed(value) for value in op.operands]
        self.results = [Typed(value) for value in op.results]
        self.attributes: dict[str, Any] = dict(op.attributes)
        if "nv_tileaa.flush_to_zero" in op.attributes:
            self.attributes["flush_to_zero"] = True
        self.attributes.update({key: SimpleNamespace(value=word) for key, word in words.items()})

    @classmethod
    def of(cls, op: Operation, row: Row) -> Seen | None:
        """The operation by its row; None where its attributes have no words there."""
        name, words = row
        result = words(op) if callable(words) else words
        return None if result is None else cls(op, f"cuda_tile.{name}", result)


Row = tuple[str, Words | Callable[[Operation], Words | None]]

_PROMISES = {"none": "none", "nsw": "no_signed_wrap", "nuw": "no_unsigned_wrap", "nsw_nuw": "no_wrap"}
_RELATIONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less_than", "le": "less_than_or_equal", "gt": "greater_than",
    "ge": "greater_than_or_equal",
}  # fmt: skip


def _overflow(op: Operation) -> Words:
    flags = op.attributes.get("overflowFlags")
    return {"overflow": "none" if flags is None else _PROMISES[flags.value]}


def _cmpi(op: Operation) -> Words:
    word = op.attributes["predicate"].value
    signedness = "unsigned" if word.startswith("u") else "signed"
    return {"comparison_predicate": _RELATIONS[word[-2:]], "signedness": signedness}


def _cmpf(op: Operation) -> Words | None:
    word = op.attributes["predicate"].value
    if len(word) != 3 or word[1:] not in _RELATIONS:
        return None
    ordering = "ordered" if word[0] == "o" else "unordered"
    return {"comparison_predicate": _RELATIONS[word[1:]], "comparison_ordering": ordering}


def _signs(op: Operation) -> Words:
    result = {name: op.attributes.get(f"signedness_{side}") for name, side in (("lhs", "a"), ("rhs", "b"))}
    return {f"signedness_{name}": "signed" if word is None else word.value for name, word in result.items()}


_S, _U = {"signedness": "signed"}, {"signedness": "unsigned"}
_NAN = {"propagate_nan": None}
_SATURATING = {"saturating": None}

BORROWED: dict[str, Row] = {
    "arith.addi": ("addi", _overflow), "arith.subi": ("subi", _overflow), "arith.muli": ("muli", _overflow),
    "arith.shli": ("shli", _overflow), "arith.shrsi": ("shri", _S), "arith.shrui": ("shri", _U),
    "arith.divsi": ("divi", {**_S, "rounding": "zero"}), "arith.divui": ("divi", {**_U, "rounding": "zero"}),
    "arith.ceildivsi": ("divi", {**_S, "rounding": "positive_inf"}),
    "arith.ceildivui": ("divi", {**_U, "rounding": "positive_inf"}),
    "arith.floordivsi": ("divi", {**_S, "rounding": "negative_inf"}),
    "arith.remsi": ("remi", _S), "arith.remui": ("remi", _U),
    "arith.andi": ("andi", {}), "arith.ori": ("ori", {}), "arith.xori": ("xori", {}),
    "arith.maxsi": ("maxi", _S), "arith.maxui": ("maxi", _U), "arith.minsi": ("mini", _S), "arith.minui": ("mini", _U),
    "arith.remf": ("remf", {}), "arith.negf": ("negf", {}),
    "arith.maximumf": ("maxf", _NAN), "arith.minimumf": ("minf", _NAN),
    "arith.maxnumf": ("maxf", {}), "arith.minnumf": ("minf", {}),
    "arith.cmpi": ("cmpi", _cmpi), "arith.cmpf": ("cmpf", _cmpf), "arith.select": ("select", {}),
    "arith.extsi": ("exti", _S), "arith.extui": ("exti", _U), "arith.trunci": ("trunci", {}),
    "arith.sitofp": ("itof", _S), "arith.uitofp": ("itof", _U),
    "arith.fptosi": ("ftoi", {**_S, **_SATURATING}), "arith.fptoui": ("ftoi", {**_U, **_SATURATING}),
    "arith.bitcast": ("bitcast", {}),
    "math.absi": ("absi", {}), "math.powf": ("pow", {}), "math.fpowi": ("fpowi", {}),
    **{f"math.{name}": (name, {}) for name in (
        "absf", "ceil", "floor", "exp", "exp2", "log", "log2", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
        "atan2",
    )},
}  # fmt: skip
"""Operation -> that of cuda_tile with its meaning."""

_OF_BOTH: dict[str, Row] = {
    "addf": ("addf", {}), "subf": ("subf", {}), "mulf": ("mulf", {}), "divf": ("divf", {}), "fma": ("fma", {}),
    "sqrt": ("sqrt", {}), "fp_to_fp": ("ftof", {}), "mulhiui": ("mulhii", {}), "view": ("reshape", {}),
    "broadcast": ("broadcast", {}), "permute": ("permute", {}), "cat": ("cat", {}), "extract_slice": ("extract", {}),
    "insert_slice": ("insert", {}), "make_range": ("iota", {}), "int_to_ptr": ("int_to_ptr", {}),
    "ptr_to_int": ("int_to_ptr", {}), "bitcast": ("int_to_ptr", {}), "assume": ("int_to_ptr", {}),
}  # fmt: skip
BORROWED.update({f"{level}.{name}": row for level in ("nv_tileaa", "nv_tileas") for name, row in _OF_BOTH.items()})

ELEMENTWISE = frozenset(
    name for name in BORROWED
    if name.startswith(("arith.", "math.")) or name.partition(".")[2] in (
        "addf", "subf", "mulf", "divf", "fma", "sqrt", "fp_to_fp", "mulhiui", "assume",
    )
) | {"arith.constant"}  # fmt: skip
"""Operations that hold for every element on its own, so that a combiner of them takes whole tiles."""
