"""LLVM's target-independent intrinsics that NVPTX selects, as data: base name -> the types it may be used with.

Everything outside this table ends LLVM's process ("Cannot select", "no libcall available") or becomes a call that
ptxas cannot resolve, so a module that uses it is refused before LLVM sees it.  Found by compiling each with LLVM 22.
"""

from __future__ import annotations

import re

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64")

INTRINSICS: dict[str, tuple[str, ...]] = {
    # Single instructions or short sequences in every format.
    **{
        name: FLOATS
        for name in (
            "fma", "fabs", "copysign", "minnum", "maxnum", "minimum", "maximum", "minimumnum", "maximumnum",
            "floor", "ceil", "trunc", "rint", "roundeven", "round", "nearbyint",
        )
    },
    "sqrt": ("f32", "f64"),
    "exp2": ("f16", "f32"),
    "ctlz": INTEGERS,
    "cttz": INTEGERS,
    "ctpop": INTEGERS,
    "bitreverse": INTEGERS,
    "abs": INTEGERS,
    "smin": INTEGERS,
    "smax": INTEGERS,
    "umin": INTEGERS,
    "umax": INTEGERS,
    "fshl": INTEGERS,
    "fshr": INTEGERS,
    "fptosi.sat": (),
    "fptoui.sat": (),
    **{f"vector.reduce.{op}": INTEGERS + ("i1",) for op in ("add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")},
    **{f"vector.reduce.{op}": FLOATS for op in ("fadd", "fmul", "fmin", "fmax", "fminimum", "fmaximum")},
    "assume": (),
    "trap": (),
    "debugtrap": (),
}

_VECTOR = re.compile(r"^v\d+")


def admitted(name: str) -> bool:
    """Whether an intrinsic, named without the prefix `llvm.` (`fma.v4f32`, `trap`), is in the table."""
    base = name
    suffixes: list[str] = []
    while base not in INTRINSICS:
        base, dot, suffix = base.rpartition(".")
        if not dot:
            return False
        suffixes.append(_VECTOR.sub("", suffix))
    types = INTRINSICS[base]
    return not types or all(suffix in types for suffix in suffixes)
