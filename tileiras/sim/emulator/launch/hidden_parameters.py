"""Hidden parameters of a kernel: tensor maps computed from its other arguments, as NAME.json specifies.

    tensor_map element=f16 address=p0 dims=p3,p2 strides=p4 box=64,32 swizzle=128

`pN` is the kernel's parameter N, counted without the hidden ones; dimensions are innermost first, the innermost has no
stride, strides are in elements. An empty dimension becomes one of size 1: a map cannot have an empty one, and the
kernel only accesses elements after it. The stride of a dimension of size 1 is rounded up to 16 bytes, as a map wants
it: no element lies there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import EmulationError
from ..tensor_map import ELEMENTS, TensorMap, encode

#: The element types of NAME.json -> those of tensor maps; types without an equivalent are copied as bits.
_ELEMENTS = {
    "i8": "u8", "f8E4M3FN": "u8", "f8E5M2": "u8", "f8E8M0FNU": "u8", "i16": "u16", "i32": "s32", "i64": "s64",
    "tf32": "f32",
}  # fmt: skip


def fill(kernel: Mapping[str, Any], data: bytearray) -> None:
    """Write the hidden parameters into the parameter space, which contains the others.

    Raises EmulationError for a text that is not a tensor map, or a map that the driver would reject.
    """
    for hidden in kernel.get("hidden_parameters", ()):
        try:
            raw = encode(_describe(hidden["fill"], kernel["parameters"], data))
        except (KeyError, ValueError, IndexError) as error:
            raise EmulationError(f"hidden parameter '{hidden['name']}' cannot be filled: {error}") from None
        if len(raw) != hidden["size"]:
            raise EmulationError(f"hidden parameter '{hidden['name']}' has {hidden['size']} bytes, a map {len(raw)}")
        data[hidden["offset"] : hidden["offset"] + len(raw)] = raw


def _describe(text: str, parameters: Sequence[Mapping[str, Any]], data: bytearray) -> TensorMap:
    kind, *words = text.split()
    result = dict(word.partition("=")[::2] for word in words)
    if kind != "tensor_map":
        raise ValueError(f"'{kind}' is not known here")

    def number(word: str) -> int:
        if not word.startswith("p"):
            return int(word)
        parameter = parameters[int(word[1:])]
        at = parameter["offset"]
        signed = not parameter["type"].startswith("ptr")
        return int.from_bytes(data[at : at + parameter["size"]], "little", signed=signed)

    def numbers(name: str) -> list[int]:
        return [number(word) for word in result.pop(name, "").split(",") if word]

    element = result.pop("element")
    name = _ELEMENTS.get(element, element)
    size = ELEMENTS[name][1]
    address, dims = number(result.pop("address")), [max(1, dim) for dim in numbers("dims")]
    wide = [stride * size for stride in numbers("strides")]
    strides = [stride + -stride % 16 if dim == 1 else stride for stride, dim in zip(wide, dims[1:])]
    box, (swizzle, _, atom) = numbers("box"), result.pop("swizzle", "0").partition("_atom_")
    nan = result.pop("oob", "zero") == "nan"
    result.pop("l2", None)  # a hint
    if result:
        raise ValueError(f"'{next(iter(result))}' is not known here")
    mixed, value = int(swizzle), int(atom or "16")
    return TensorMap(name, address, tuple(dims), tuple(strides), tuple(box), mixed, nan, element == "tf32", value)
