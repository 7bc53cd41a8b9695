"""Hidden parameters: tensor maps, which the host encodes from the other arguments of a kernel.

A kernel that moves tiles with the tensor memory accelerator takes, besides its own parameters, a descriptor of each
tensor: 128 opaque bytes that only the driver can write (CUDA driver API, cuTensorMapEncodeTiled).  `fill` of a hidden
parameter in NAME.json states the arguments of that function:

    tensor_map element=f16 address=p0 dims=p3,p2 strides=p4 box=64,32 swizzle=128

`pN` is the value of the kernel's parameter N, counted without the hidden ones, a number itself.  As for the driver,
dimensions are innermost first, the innermost has no stride, and a box is the part that one copy moves; strides are in
elements.
Without `element_strides`, `interleave`, `swizzle`, `l2` and `oob` these are ones, none, none, none and zeros; swizzles
keep 16 bytes together, `128_atom_32` keeps 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileiras.support.named_tuple import NamedTuple

KIND = "tensor_map"

ELEMENTS = {
    "i8": (0, 1), "f8E4M3FN": (0, 1), "f8E5M2": (0, 1), "f8E8M0FNU": (0, 1),
    "i16": (1, 2), "i32": (3, 4), "i64": (5, 8), "f16": (6, 2), "f32": (7, 4), "f64": (8, 8), "bf16": (9, 2),
    "tf32": (11, 4),
}  # fmt: skip
"""CUtensorMapDataType and bytes of an element; types without one of their own are moved as bits."""

# CUtensorMapInterleave, CUtensorMapSwizzle and CUtensorMapL2promotion, by bytes; CUtensorMapFloatOOBfill.
_CHOICES = {
    "interleave": {"0": 0, "16": 1, "32": 2},
    "swizzle": {"0": 0, "32": 1, "64": 2, "128": 3, "128_atom_32": 4},
    "l2": {"0": 0, "64": 1, "128": 2, "256": 3},
    "oob": {"zero": 0, "nan": 1},
}

_MOST_DIMS = 5


class Operand(NamedTuple):
    """A parameter's number, or a number itself."""

    is_parameter: bool
    value: int


class TensorMap(NamedTuple):
    """The arguments of the driver's function; the last four are values of its enumerations."""

    element: str
    address: Operand
    dims: tuple[Operand, ...]
    strides: tuple[Operand, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int
    swizzle: int
    l2: int
    oob: int

    @property
    def data_type(self) -> int:
        return ELEMENTS[self.element][0]

    @property
    def element_size(self) -> int:
        return ELEMENTS[self.element][1]


def parse(fill: str) -> TensorMap:
    """Raise ValueError, with the error, for a text that does not describe a tensor map."""
    kind, *words = fill.split()
    fields = dict(word.partition("=")[::2] for word in words)
    names = {"element", "address", "dims", "strides", "box", "element_strides", *_CHOICES}
    if kind != KIND or len(fields) != len(words) or not fields.keys() <= names:
        raise ValueError(f"no tensor map: '{fill}'")
    try:
        (address,) = _operands(fields["address"])
        dims, strides = _operands(fields["dims"]), _operands(fields.get("strides", ""))
        box = _numbers(fields["box"])
        element_strides = _numbers(fields["element_strides"]) if "element_strides" in fields else (1,) * len(dims)
        choices = {name: choices[fields.get(name, next(iter(choices)))] for name, choices in _CHOICES.items()}
        result = TensorMap(fields["element"], address, dims, strides, box, element_strides, **choices)
        ranks = {len(dims), len(strides) + 1, len(box), len(element_strides)}
    except (KeyError, ValueError) as error:
        raise ValueError(f"no tensor map: '{fill}': {error}") from None
    has_rank = len(ranks) == 1 and 1 <= len(dims) <= _MOST_DIMS
    if result.element not in ELEMENTS or not address.is_parameter or not has_rank:
        raise ValueError(f"no tensor map: '{fill}'")
    return result


def _operands(text: str) -> tuple[Operand, ...]:
    words = text.split(",") if text else ()
    return tuple(Operand(word.startswith("p"), int(word.removeprefix("p"))) for word in words)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def value(operand: Operand, parameters: list[Mapping[str, Any]], packed: bytes) -> int:
    """The value of an operand among packed parameters, which `parameters` of NAME.json describe."""
    if not operand.is_parameter:
        return operand.value
    parameter = parameters[operand.value]
    at = parameter["offset"]
    signed = not parameter["type"].startswith("ptr")
    return int.from_bytes(packed[at : at + parameter["size"]], "little", signed=signed)
