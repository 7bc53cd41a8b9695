"""LLVM's target-independent intrinsics that NVPTX compiles, as data, and the `llvm.intr.*` operations made from it.

Everything outside this table ends LLVM's process ("Cannot select", "no libcall available") or becomes a call that
ptxas cannot resolve, so a module that uses it is refused before LLVM sees it.  Found by compiling each with LLVM 22.
"""

from __future__ import annotations

import re

from tileiras.support.named_tuple import NamedTuple

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64")


class Intrinsic(NamedTuple):
    """`types`: element types it may be used with; `shape`: how its signature follows from the type.

    Shapes: "1", "2", "3" take that many of the type and give one; "flag" takes one and a constant i1; "reduce" takes a
    vector and gives an element; "fold" takes a start value and a vector; "predicate" takes an i1; "void" nothing.
    """

    types: tuple[str, ...]
    shape: str
    pure: bool = True


def _rows(names: str, types: tuple[str, ...], shape: str) -> dict[str, Intrinsic]:
    return {name: Intrinsic(types, shape) for name in names.split()}


INTRINSICS: dict[str, Intrinsic] = {
    **_rows("fabs floor ceil trunc rint roundeven round nearbyint", FLOATS, "1"),
    **_rows("copysign minnum maxnum minimum maximum minimumnum maximumnum", FLOATS, "2"),
    **_rows("fma", FLOATS, "3"),
    # sqrt of half and exp2 of double have no code.
    **_rows("sqrt", ("f32", "f64"), "1"),
    **_rows("exp2", ("f16", "f32"), "1"),
    **_rows("ctpop bitreverse", INTEGERS, "1"),
    **_rows("ctlz cttz abs", INTEGERS, "flag"),
    **_rows("smin smax umin umax", INTEGERS, "2"),
    **_rows("fshl fshr", INTEGERS, "3"),
    **{
        f"vector.reduce.{op}": Intrinsic((*INTEGERS, "i1"), "reduce")
        for op in ("add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")
    },
    **{f"vector.reduce.{op}": Intrinsic(FLOATS, "reduce") for op in ("fmin", "fmax", "fminimum", "fmaximum")},
    **{f"vector.reduce.{op}": Intrinsic(FLOATS, "fold") for op in ("fadd", "fmul")},
    "assume": Intrinsic((), "predicate", pure=False),
    "trap": Intrinsic((), "void", pure=False),
    "debugtrap": Intrinsic((), "void", pure=False),
}
"""By name without the prefix `llvm.` and the suffix of the type."""

FAKE_USE = "fake.use"
"""Takes anything, has no code (LLVM language reference, "llvm.fake.use")."""

_VECTOR = re.compile(r"^v\d+")


def admitted(name: str) -> bool:
    """Whether an intrinsic, named without the prefix `llvm.` (`fma.v4f32`, `trap`), is in the table."""
    row = INTRINSICS.get(name)
    if row is not None or name == FAKE_USE:
        return row is None or not row.types
    base, _, suffix = name.rpartition(".")
    row = INTRINSICS.get(base)
    return row is not None and _VECTOR.sub("", suffix) in row.types
