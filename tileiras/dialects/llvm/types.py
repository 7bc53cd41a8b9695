"""Types of the llvm dialect.  Integers, floats and one-dimensional vectors are the builtin ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tileiras.ir import Attribute, FloatType, IntegerType, Type, VectorType, VerifyError

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class LLVMPointerType(Type, name="llvm.ptr", parameters=("address_space",)):
    """An opaque pointer; spaces: 0 generic, 1 global, 3 shared, 4 constant, 5 local, 6 tensor memory, 7 cluster."""

    address_space: int

    def __new__(cls, address_space: int = 0) -> LLVMPointerType:
        return cls.intern((address_space,))  # type: ignore[return-value]

    def verify(self) -> None:
        if not 0 <= self.address_space < 1 << 24:  # LLVM has 24 bits for it
            raise VerifyError(f"there is no address space {self.address_space}", prefix=False)

    def print_parameters(self, printer: Printer) -> None:
        if self.address_space:
            printer.write(f"<{self.address_space}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> LLVMPointerType:
        if not parser.parse_optional_punctuation("<"):
            return cls()
        space = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(space)


class LLVMVoidType(Type, name="llvm.void"):
    """The result of a function that returns nothing."""


class LLVMStructType(Type, name="llvm.struct", parameters=("elements",)):
    """A literal struct."""

    elements: tuple[Type, ...]

    def __new__(cls, elements: Iterable[Type]) -> LLVMStructType:
        return cls.intern((tuple(elements),))  # type: ignore[return-value]

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<(")
        _print_types(printer, self.elements)
        printer.write(")>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> LLVMStructType:
        parser.parse_punctuation("<")
        elements = parser.parse_comma_separated(lambda: parser.parse_dialect_type("llvm"), "(", ")")
        parser.parse_punctuation(">")
        return cls(elements)


class LLVMArrayType(Type, name="llvm.array", parameters=("count", "element_type")):
    """`count` elements in a row in memory."""

    count: int
    element_type: Type

    def verify(self) -> None:
        if not 0 <= self.count < 1 << 63:
            raise VerifyError(f"an array cannot have {self.count} elements", prefix=False)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.count} x ")
        printer.print_type(self.element_type)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> LLVMArrayType:
        parser.parse_punctuation("<")
        count = parser.parse_integer()
        parser.parse_keyword("x")
        element = parser.parse_dialect_type("llvm")
        parser.parse_punctuation(">")
        return cls(count, element)


class LLVMFunctionType(Type, name="llvm.func", parameters=("result", "inputs")):
    """`result (parameters)`; `result` is LLVMVoidType for none."""

    result: Type
    inputs: tuple[Type, ...]

    def __new__(cls, result: Type, inputs: Iterable[Type] = ()) -> LLVMFunctionType:
        return cls.intern((result, tuple(inputs)))  # type: ignore[return-value]

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_type(self.result)
        printer.write(" (")
        _print_types(printer, self.inputs)
        printer.write(")>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> LLVMFunctionType:
        parser.parse_punctuation("<")
        result = parser.parse_dialect_type("llvm")
        inputs = parser.parse_comma_separated(lambda: parser.parse_dialect_type("llvm"), "(", ")")
        parser.parse_punctuation(">")
        return cls(result, inputs)


void = LLVMVoidType()


def _print_types(printer: Printer, types: Iterable[Type]) -> None:
    for number, type in enumerate(types):
        if number:
            printer.write(", ")
        printer.print_type(type)


def element_type(type: Type) -> Any:
    """The element of a vector, the type itself otherwise."""
    return type.element_type if isinstance(type, VectorType) else type


def element_count(type: Type) -> int:
    """How many elements a vector has; 1 for any other type."""
    return type.shape[0] if isinstance(type, VectorType) else 1


def with_element_type(type: Type, element: Type) -> Any:
    """A vector of as many `element` as `type` has, or `element` for a scalar type."""
    return VectorType(type.shape, element) if isinstance(type, VectorType) else element


_FLOAT_NAMES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def is_llvm_type(type: Attribute) -> bool:
    """Whether LLVM has the type: 8- and 4-bit floats and tf32 must have become integers or f32."""
    if isinstance(type, VectorType):
        return len(type.shape) == 1 and is_llvm_type(type.element_type)
    if isinstance(type, FloatType):
        return type.keyword in _FLOAT_NAMES
    if isinstance(type, LLVMStructType):
        return all(map(is_llvm_type, type.elements))
    if isinstance(type, LLVMArrayType):
        return is_llvm_type(type.element_type)
    return isinstance(type, (IntegerType, LLVMPointerType))


_texts: dict[Type, str] = {}


def llvm_text(type: Type) -> str:
    """The type in LLVM IR's spelling; raises VerifyError for a type that LLVM does not have."""
    text = _texts.get(type)
    if text is None:
        text = _texts[type] = _spell(type)
    return text


def _spell(type: Type) -> str:
    if isinstance(type, IntegerType):
        return f"i{type.width}"
    if isinstance(type, FloatType) and type.keyword in _FLOAT_NAMES:
        return _FLOAT_NAMES[type.keyword]
    if isinstance(type, VectorType) and len(type.shape) == 1:
        return f"<{type.shape[0]} x {llvm_text(type.element_type)}>"
    if isinstance(type, LLVMPointerType):
        return f"ptr addrspace({type.address_space})" if type.address_space else "ptr"
    if isinstance(type, LLVMStructType):
        return "{" + ", ".join(map(llvm_text, type.elements)) + "}"
    if isinstance(type, LLVMArrayType):
        return f"[{type.count} x {llvm_text(type.element_type)}]"
    if isinstance(type, LLVMVoidType):
        return "void"
    if isinstance(type, LLVMFunctionType):
        return f"{llvm_text(type.result)} ({', '.join(map(llvm_text, type.inputs))})"
    raise VerifyError(f"type '{type}' is not an LLVM type", prefix=False)
