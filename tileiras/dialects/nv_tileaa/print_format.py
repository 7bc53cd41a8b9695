"""The format of `print`: literal texts and conversions, and how much of a tile one call prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tileiras.ir import TensorType
from tileiras.support.named_tuple import NamedTuple

MOST_ARGUMENTS = 32
"""A call of `printf` prints no more than these (CUDA C++ Programming Guide, "Formatted Output", "Limitations")."""

# A conversion ends as in the verifier of cuda_tile.print_tko.
_CONVERSION = r"%(?:%|[^diuoxXeEfFgGaAcsSpn%]*[diuoxXeEfFgGaAcsSpn])"


class Conversion(NamedTuple):
    """A conversion as it is written, and the number of the operand that it prints."""

    spec: str
    operand: int


def pieces(format: str) -> Iterator[str | Conversion]:
    """The literal texts of a format, `%%` left as it is, and the conversions with the numbers of their operands."""
    end = operand = 0
    for match in re.finditer(_CONVERSION, format):
        if match.group() == "%%":
            continue
        yield format[end : match.start()]
        yield Conversion(match.group(), operand)
        operand += 1
        end = match.end()
    yield format[end:]


def is_printed_at_once(type: Any) -> bool:
    """Whether one call prints all elements of a tile."""
    return isinstance(type, TensorType) and type.num_elements <= MOST_ARGUMENTS
