"""Constants in LLVM IR's spelling."""

from __future__ import annotations

import struct

from tileiras.dialects.llvm.types import llvm_text
from tileiras.ir import (
    Attribute,
    DenseElementsAttr,
    FloatAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VerifyError,
    element_size,
)


def float_text(bits: int, type: FloatType) -> str:
    """A float from its bit pattern.

    LLVM writes half as 0xH, bfloat as 0xR, and both float and double as the 64 bits of a double.
    """
    keyword = type.keyword
    if keyword == "f16":
        return f"0xH{bits:04X}"
    if keyword == "bf16":
        return f"0xR{bits:04X}"
    if keyword == "f32":
        bits = _widen(bits)
    elif keyword != "f64":
        raise VerifyError(f"LLVM has no constants of type '{type}'", prefix=False)
    return f"0x{bits:016X}"


def _widen(bits: int) -> int:
    """The double with the value of a float; NaN payloads are kept, which a conversion in hardware would not do."""
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return sign << 63 | 0x7FF << 52 | mantissa << 29
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    (wide,) = struct.unpack("<Q", struct.pack("<d", value))
    return wide


def _scalar(bits: int, type: FloatType | IntegerType) -> str:
    width = getattr(type, "width", 0)
    if hasattr(type, "keyword"):
        return float_text(bits, type)
    if width == 1:
        return "true" if bits & 1 else "false"
    bits &= (1 << width) - 1
    return str(bits - (1 << width) if bits >> (width - 1) else bits)


def constant_text(value: Attribute) -> str:
    """A constant without its type; raises VerifyError for an attribute that is no LLVM constant."""
    if isinstance(value, IntegerAttr):
        return _scalar(value.unsigned, value.type)
    if isinstance(value, FloatAttr):
        return float_text(value.bits, value.type)
    if isinstance(value, DenseElementsAttr):
        element = value.type.element_type
        name = llvm_text(element)
        if value.is_splat:
            if not any(value.data):
                return "zeroinitializer"
            bits = int.from_bytes(value.data[: element_size(element)], "little")
            return f"splat ({name} {_scalar(bits, element)})"
        return "<" + ", ".join(f"{name} {_scalar(bits, element)}" for bits in value.stored_bits()) + ">"
    if isinstance(value, StringAttr):
        return 'c"' + escape(value.value) + '"'
    raise VerifyError(f"'{value}' is not an LLVM constant", prefix=False)


def escape(text: str) -> str:
    """A string between double quotes as LLVM IR has it: printable ASCII as it is, other bytes as hexadecimal pairs."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)


def assembly_text(asm: str, constraints: str, side_effects: bool, result: str, arguments: str) -> str:
    """A call of inline assembly; `result` and `arguments` are LLVM text.

    Instructions that the threads of a warp execute together are convergent: divergent branches must not duplicate them.
    """
    keyword = "sideeffect " if side_effects else ""
    together = " convergent" if ".sync" in asm or ".aligned" in asm else ""
    return f'call {result} asm {keyword}"{escape(asm)}", "{escape(constraints)}"({arguments}){together}'
