"""The literals of dense constants: `1`, `[[1.0, 0x7F800000], ...]`, `"0x<bytes>"`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ..attributes import DenseElementsAttr, VerifyError, element_size
from ..float_format import format_float
from ..types import FloatType, IndexType, IntegerType, i1
from . import lexer

if TYPE_CHECKING:
    from ..types import ShapedType, Type
    from .attribute_parser import AttributeParser

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_ELEMENT = lexer.token(r"[+-]?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][+-]?\d+)?)?)|true\b|false\b")


class DenseLiteral:
    """Element texts with their offsets, and the shape that the brackets spell (None for a splat)."""

    __slots__ = ("elements", "shape", "raw", "start")

    def __init__(self, elements: list[tuple[str, int]], shape: list[int] | None, raw: bytes | None, start: int) -> None:
        self.elements = elements
        self.shape = shape
        self.raw = raw
        self.start = start

    def build(self, parser: "AttributeParser", type: ShapedType, element_type: Type) -> DenseElementsAttr:
        """The constant of shaped type `type`; reports elements that do not fit it."""
        if not hasattr(element_type, "width"):
            parser.fail(self.start, f"expected floating-point or integer element type, got {element_type}")
        try:
            size = element_size(element_type)
        except VerifyError as error:
            parser.fail(self.start, error.message)
        if self.raw is not None:
            return self._from_raw(parser, type, size)
        if self.shape is not None and self.shape != list(type.shape):
            parser.fail(
                self.start,
                f"inferred shape of elements literal ([{', '.join(map(str, self.shape))}]) does not match type "
                f"([{', '.join(map(str, type.shape))}])",
            )
        bits = [element_bits(parser, text, at, element_type) for text, at in self.elements]
        data = struct.pack(f"<{len(bits)}{_FORMATS[size]}", *bits)
        # A one-element list is a splat as well; equal elements are folded into one by the attribute.
        return DenseElementsAttr(type, data, True if self.shape is None else None)

    def _from_raw(self, parser: "AttributeParser", type: ShapedType, size: int) -> DenseElementsAttr:
        raw = self.raw
        assert raw is not None
        count = type.num_elements
        if type.element_type is i1 and len(raw) == (count + 7) // 8 and count != 1:
            raw = bytes(raw[n >> 3] >> (n & 7) & 1 for n in range(count))
        elif type.element_type is i1 and len(raw) == 1:
            raw = b"\1" if raw[0] else b"\0"  # the splat of true is written 0xFF
        if len(raw) == size:
            return DenseElementsAttr(type, raw, True)
        if len(raw) != size * count:
            parser.fail(
                self.start, f"elements hex data size is invalid for provided type: {type} takes {size * count} bytes"
            )
        return DenseElementsAttr(type, raw)


def element_bits(parser: "AttributeParser", text: str, at: int, element_type: FloatType | IntegerType) -> int:
    """Bits of one element text."""
    if isinstance(element_type, FloatType):
        if text in ("true", "false"):
            parser.fail(at, "expected floating-point elements, but parsed integer")
        if "." not in text and "x" not in text:
            parser.fail(at, "expected floating-point elements, but parsed integer")
        return parser._float_bits(text, element_type, at)
    if not isinstance(element_type, (IntegerType, IndexType)):
        parser.fail(at, f"elements of type {element_type} cannot be written as a literal")
    width = element_type.width
    if text in ("true", "false"):
        if width != 1:
            parser.fail(at, "expected i1 type for 'true' or 'false' values")
        return int(text == "true")
    if "." in text:
        parser.fail(at, "expected integer elements, but parsed floating-point")
    value = parser._integer(text, at)
    if width == 1 and value in (-1, 1):
        return 1
    if not -(1 << (width - 1)) <= value < 1 << width:
        parser.fail(at, "integer constant out of range for type")
    return value & ((1 << width) - 1)


def parse_dense_literal(
    parser: "AttributeParser", empty_allowed: bool = False, element_type: FloatType | IntegerType | None = None
) -> DenseLiteral:
    """The literal at the parser's position, brackets and all.

    With `element_type` every element is checked as it is read; otherwise by `DenseLiteral.build`.
    """
    start = parser.pos
    elements: list[tuple[str, int]] = []
    text = parser.text
    if text[start] == '"':
        literal = parser.parse_string()
        if not literal.startswith("0x") or len(literal) % 2:
            parser.fail(start, "elements hex string should start with '0x'")
        try:
            return DenseLiteral([], None, bytes.fromhex(literal[2:]), start)
        except ValueError:
            parser.fail(start, "elements hex string only contains hex digits")
    if empty_allowed and text[start] == ">":
        return DenseLiteral([], [0], None, start)

    def scalar() -> None:
        match = _ELEMENT.match(text, parser.pos)
        if match is None:
            parser.expected("element literal of primitive type" if element_type is None else _word(element_type))
        if element_type is not None:
            _check_typed(parser, match[1], element_type)
        elements.append((match[1], parser.pos))
        parser.pos = match.end()

    def nested() -> list[int]:
        if text[parser.pos] != "[":
            scalar()
            return []
        parser._enter()
        shapes = parser.parse_comma_separated(nested, "[", "]")
        parser._depth -= 1
        if any(shape != shapes[0] for shape in shapes):
            parser.fail(
                start, "tensor literal is invalid; ranks are not consistent between elements"
            )
        return [len(shapes), *(shapes[0] if shapes else ())]

    if text[start] != "[":
        scalar()
        return DenseLiteral(elements, None, None, start)
    return DenseLiteral(elements, nested(), None, start)


def _word(element_type: Type) -> str:
    return "floating point literal" if isinstance(element_type, FloatType) else "integer value"


def _check_typed(parser: "AttributeParser", text: str, element_type: FloatType | IntegerType) -> None:
    """Check one element whose type is known in advance."""
    at = parser.pos
    if isinstance(element_type, FloatType):
        if text in ("true", "false"):
            parser.expected("floating point literal")
        if "." not in text and "x" not in text:
            parser.fail(
                at,
                "unexpected decimal integer literal for a floating point value",
                ((parser.location_at(at), "add a trailing dot to make the literal a float"),),
            )
    elif text in ("true", "false") and element_type is not i1 or "." in text:
        parser.expected("integer value")
    element_bits(parser, text, at, element_type)


HEX_THRESHOLD = 100
"""More elements than this, unless a splat, are printed as one hexadecimal string (MLIR's default)."""


def dense_text(attribute: DenseElementsAttr, hex_threshold: int = HEX_THRESHOLD) -> str:
    """The text between `dense<` and `>`."""
    type, element_type = attribute.type, attribute.type.element_type
    if attribute.is_splat:
        return _element_text(_bits(attribute)[0], element_type)
    count = type.num_elements
    if count == 0:
        return ""
    if count > hex_threshold:
        return '"0x' + attribute.data.hex().upper() + '"'
    texts = [_element_text(bits, element_type) for bits in _bits(attribute)]
    for size in reversed(type.shape):
        texts = ["[" + ", ".join(texts[at : at + size]) + "]" for at in range(0, len(texts), size)]
    return texts[0]


def _bits(attribute: DenseElementsAttr) -> list[int]:
    size = element_size(attribute.type.element_type)
    return list(struct.unpack(f"<{len(attribute.data) // size}{_FORMATS[size]}", attribute.data))


def _element_text(bits: int, element_type: FloatType | IntegerType) -> str:
    if isinstance(element_type, FloatType):
        return format_float(bits, element_type)
    width = element_type.width
    if width == 1:
        return "true" if bits else "false"
    return str(bits - (1 << width) if bits >> (width - 1) else bits)
