"""The table by which the host's code fills a kernel's tensor maps: hidden parameters of a tile launch.

The driver calls a kernel's function in `.nv.host` with a copy of its parameters as they lie in the constant bank, and
it writes the maps after the declared ones.  Ours (`tests/codegen/host_code.ll`) reads a table that follows its code:

    the number of maps; of each:
        where it is among the parameters
        address, four strides in elements, five sizes: operands, see `_operand`; innermost first
        bytes of an element, flags, box

All numbers have 8 bytes.  The format of a map's 128 bytes, and its flags, were read off the maps of the vendor's code
(13.5): `tileiras/sim/emulator/tensor_map.py` has them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.codegen import tensor_map
from tileiras.codegen.tensor_map import Operand, TensorMap
from tileiras.targets.tensor_maps import ELEMENT_TYPES

_ALIGNMENT = 64
_MAP_BYTES = 128
_ROW = struct.Struct("<14Q")
_DIMS = 5

_VALID, _HINTS = 2, 1 << 18
"""Set in every map of the vendor's; the meaning of the second one is unknown."""
_RANK, _ELEMENT, _SWIZZLE, _NAN, _TF32, _WIDE_ATOMS = 4, 7, 13, 15, 16, 19
"""First bits of flags."""
_WIDE = 4
"""CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B: the swizzle of 128 bytes, by atoms of 32."""


def table(kernel: Mapping[str, Any], bank_start: int) -> bytes:
    """The table of a kernel of NAME.json; empty where it has no hidden parameters.

    `bank_start` is where parameters begin in the constant bank, from whose start their alignment counts.  Raises
    ValueError for a hidden parameter that is no tensor map, or one that this code does not fill.
    """
    parameters = kernel["parameters"]
    maps = [tensor_map.parse(hidden["fill"]) for hidden in kernel["hidden_parameters"]]
    if not maps:
        return b""
    end = bank_start + max((each["offset"] + each["size"] for each in parameters), default=0)
    first = end + -end % _ALIGNMENT - bank_start
    rows = [_row(each, first + number * _MAP_BYTES, parameters) for number, each in enumerate(maps)]
    return struct.pack("<Q", len(rows)) + b"".join(rows)


def _row(tensor_map: TensorMap, place: int, parameters: Sequence[Mapping[str, Any]]) -> bytes:
    if tensor_map.interleave or any(stride != 1 for stride in tensor_map.element_strides):
        raise ValueError("no host code for elements that are interleaved, or apart")
    one, none = Operand(False, 1), Operand(False, 0)
    strides = tensor_map.strides + (none,) * (_DIMS - 1 - len(tensor_map.strides))
    dims = tensor_map.dims + (one,) * (_DIMS - len(tensor_map.dims))
    operands = [_operand(each, parameters) for each in (tensor_map.address, *strides, *dims)]
    box = sum(size - 1 << 8 * number for number, size in enumerate(tensor_map.box))
    return _ROW.pack(place, *operands, tensor_map.element_size, _flags(tensor_map), box)


def _operand(operand: Operand, parameters: Sequence[Mapping[str, Any]]) -> int:
    """A constant times 256, or a parameter's offset times 256 and its bytes."""
    if not operand.is_parameter:
        return operand.value << 8
    parameter = parameters[operand.value]
    return parameter["offset"] << 8 | parameter["size"]


def _flags(map_: TensorMap) -> int:
    rounds, wide = map_.element == "tf32", map_.swizzle == _WIDE
    name = "f32" if rounds else map_.element
    # Types without a number of their own are moved as bits.
    element = ELEMENT_TYPES.get(name, ELEMENT_TYPES[f"i{8 * map_.element_size}"])
    return (
        _VALID | _HINTS | len(map_.dims) - 1 << _RANK | element << _ELEMENT
        | (map_.swizzle - 1 if wide else map_.swizzle) << _SWIZZLE
        | map_.oob << _NAN | rounds << _TF32 | wide << _WIDE_ATOMS
    )  # fmt: skip
