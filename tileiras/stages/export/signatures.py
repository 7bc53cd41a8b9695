"""How a cuTile Python file names the kernels and signatures that are compiled ahead of time.

    TILEIRAS_EXPORT = {
        "vector_add": (vector_add, "f32[?]", "f32[?]", "f32[?]", 1024),
        "softmax_f16": (softmax, "f16[?, 8*?]", "f16[?, 8*?]", 512),
    }

Each key is the name of a compiled kernel, each value the kernel followed by its parameters in order:

- `"f32[?, ?]"`: an array, a dimension per entry, rows last.  Its elements are contiguous (the last stride is 1), its
  address is a multiple of 16 bytes, it overlaps no other parameter.  `8*?` is a dimension whose length, and with it the
  strides of the dimensions before it, is a multiple of 8.  A number is a dimension of that length.
- `"i32"`, `"f32"`, ...: a scalar.
- a Python number, bool or nested tuple: the value of a `ct.Constant` parameter.
- anything of `cuda.tile.compilation` (`ArrayConstraint`, `ListConstraint`, ...), for what the short forms do not say.

Instead of parameters one `KernelSignature` may follow the kernel.  The kernel file needs no import for this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

DTYPES = {
    "i1": "bool_", "bool": "bool_",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32", "f32": "float32", "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e8m0fnu": "float8_e8m0fnu", "f4e2m1fn": "float4_e2m1fn",
    "f8e5m3fnu": "float8_e5m3fnu",
}  # fmt: skip
"""Short names of element types, beside the front end's own (`float32`)."""

BASE_ALIGNMENT = 16
"""The assumed alignment of an array's address: every allocator gives more, and 16-byte accesses need it."""

_ARRAY = re.compile(r"\s*(\w+)\s*(?:\[([^\[\]]*)\])?\s*")
_DIMENSION = re.compile(r"\s*(?:(?P<length>\d+)|(?:(?P<divisor>\d+)\s*\*\s*)?\?)\s*")


class SignatureError(ValueError):
    """A value in TILEIRAS_EXPORT that does not follow the convention."""


def kernel_signature(name: str, parameters: tuple) -> Any:
    """The front end's KernelSignature for the compiled kernel `name`; raises SignatureError."""
    from cuda.tile import compilation

    if len(parameters) == 1 and isinstance(parameters[0], compilation.KernelSignature):
        return parameters[0].with_symbol(name)
    constraints = [_constraint(p, number) for number, p in enumerate(parameters)]
    # Constant shapes and tuples came with the second calling convention.
    newer = any(_needs_version_2(c, compilation) for c in constraints)
    conventions = compilation.CallingConvention
    convention = conventions.cutile_python_v2() if newer else conventions.cutile_python_v1()
    try:
        return compilation.KernelSignature(constraints, convention, name)
    except (TypeError, ValueError, NotImplementedError) as error:  # the front end's refusals of a constraint
        raise SignatureError(f"invalid signature for '{name}': {error}") from None


def slot_names(names: Sequence[str], parameters: Sequence[Any]) -> list[str] | None:
    """The names of the parameters of the compiled kernel: of an array `a` of rank 2 `a`, `a_size0`, `a_size1`,
    `a_stride0` and `a_stride1`, of a list its address and its length, of a constant nothing, of a tuple those of its
    items.  `parameters` are the front end's constraints; None for one that is not known here."""
    result: list[str] = []
    for name, constraint in zip(names, parameters, strict=True):
        own = _slots(name, constraint)
        if own is None:
            return None
        result += own
    return result


def _slots(name: str, constraint: Any) -> list[str] | None:
    from cuda.tile import compilation

    if isinstance(constraint, compilation.ArrayConstraint):
        axes = range(constraint.ndim)
        return [name, *(f"{name}_size{axis}" for axis in axes), *(f"{name}_stride{axis}" for axis in axes)]
    if isinstance(constraint, compilation.ListConstraint):
        return [name, f"{name}_length"]
    if isinstance(constraint, compilation.ScalarConstraint):
        return [name]
    if isinstance(constraint, compilation.TupleConstraint):
        constraint = constraint.items
    if isinstance(constraint, tuple):
        return slot_names([f"{name}_{number}" for number in range(len(constraint))], constraint)
    constant = isinstance(constraint, (bool, int, float, compilation.ConstantConstraint))
    return [] if constant else None


def array(text: str) -> Any:
    """The front end's ArrayConstraint for a short form such as "f32[?, 8*?]", to be adapted or put into a list."""
    constraint = _constraint(text, 0)
    if not hasattr(constraint, "ndim"):
        raise SignatureError(f"'{text}' is not an array")
    return constraint


def _constraint(parameter: Any, number: int) -> Any:
    if not isinstance(parameter, str):
        return parameter
    from cuda.tile import compilation

    match = _ARRAY.fullmatch(parameter)
    if match is None:
        raise SignatureError(
            f"parameter #{number} '{parameter}' is neither an array such as 'f32[?, ?]' nor a scalar such as 'i32'"
        )
    dtype = _dtype(match[1], number)
    if match[2] is None:
        return compilation.ScalarConstraint(dtype)
    return _array(dtype, match[2], parameter, number)


def _dtype(word: str, number: int) -> Any:
    import cuda.tile as ct

    dtype = getattr(ct, DTYPES.get(word.lower(), word), None)
    if not isinstance(dtype, ct.DType):
        raise SignatureError(
            f"parameter #{number} has unknown element type '{word}'; known: {', '.join(DTYPES)}"
        )
    return dtype


def _array(dtype: Any, dimensions: str, parameter: str, number: int) -> Any:
    import cuda.tile as ct
    from cuda.tile import compilation

    lengths: list[int | None] = []
    divisors: list[int] = []
    for text in dimensions.split(",") if dimensions.strip() else ():
        match = _DIMENSION.fullmatch(text)
        if match is None:
            raise SignatureError(
                f"parameter #{number} '{parameter}': dimension '{text.strip()}' is neither ?, a length, nor N*?"
            )
        length = int(match["length"]) if match["length"] else None
        divisor = int(match["divisor"] or length or 1)
        if divisor == 0:
            raise SignatureError(f"parameter #{number} '{parameter}': a dimension cannot be a multiple of 0")
        lengths.append(length)
        divisors.append(divisor)
    rank = len(lengths)
    stride_divisors = [1] * rank
    for dim in range(rank - 2, -1, -1):
        stride_divisors[dim] = stride_divisors[dim + 1] * divisors[dim + 1]
    return compilation.ArrayConstraint(
        dtype,
        rank,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[None] * (rank - 1) + [1] if rank else None,
        shape_constant=lengths if any(length is not None for length in lengths) else None,
        stride_divisible_by=stride_divisors,
        shape_divisible_by=[1 if length is not None else d for length, d in zip(lengths, divisors)],
        base_addr_divisible_by=BASE_ALIGNMENT,
    )


def _needs_version_2(constraint: Any, compilation: Any) -> bool:
    if isinstance(constraint, (tuple, compilation.TupleConstraint)):
        return True
    if isinstance(constraint, compilation.ListConstraint):
        return _needs_version_2(constraint.element, compilation)
    shape = getattr(constraint, "shape_constant", None)
    return shape is not None and any(length is not None for length in shape)
