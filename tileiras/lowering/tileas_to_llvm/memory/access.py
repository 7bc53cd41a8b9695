"""Loads and stores of one vector: plain LLVM operations, or predicated PTX where a mask or an order requires it; and
the types in which elements are held while they move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import llvm
from tileiras.ir import FloatType, IntegerType, Operation, Type, Value, i1, i8, i16, i32, i64

from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, vector_of

if TYPE_CHECKING:
    from tileiras.dialects import nvvm

SPACES = {1: "global", 3: "shared"}
"""LLVM's numbers of address spaces -> PTX's names."""

SCOPES = {"tl_blk": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"}
"""nv_tileaa's names of the scopes -> PTX's."""

_LETTERS = {16: "h", 32: "r", 64: "l"}


def ordering_of(op: Operation) -> str:
    """PTX's qualifiers for an operation's order and scope: `.acquire.gpu`, nothing for a weak access."""
    semantic = op.mem_semantic.value
    return "" if semantic == "weak" else f".{semantic}.{SCOPES[op.mem_scope.value]}"


def _words(type: Type) -> tuple[Any, int, int]:
    """(register type, number of registers, bits of each in memory) of an access of this type."""
    element = element_of(type)
    total = element.width * count_of(type)
    if total <= 16:
        return i16, 1, total
    if total == 64 and element.width != 64:
        return i32, 2, 32
    width = 64 if element.width == 64 else 32
    return (i64 if width == 64 else i32), total // width, width


def mnemonic(name: str, ordering: str, space: int, count: int, bits: int) -> str:
    """PTX's name of an access, `ld` or `st`, of `count` words of `bits` bits in an address space."""
    vector = f".v{count}" if count > 1 else ""
    return f"{name}{ordering}.{SPACES[space]}{vector}.b{bits}"


def register_list(first: int, count: int) -> str:
    """The operands of inline assembly from `$first` on, a vector in braces where there are several."""
    names = [f"${first + i}" for i in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


def address_text(index: int, offset: int) -> str:
    """`offset` bytes after the address in operand `$index` of inline assembly."""
    return f"[${index}+{offset}]" if offset > 0 else f"[${index}{offset}]" if offset else f"[${index}]"


def as_data(value: Value, lowering: FunctionLowering) -> Value:
    """Elements as they move and as they are in memory: truth values as bytes of 0 or 1, pointers as addresses."""
    element, count = element_of(value.type), count_of(value.type)
    if element is i1:
        return lowering.emit.insert(llvm.ZExtOp(value, res=vector_of(i8, count)))
    if isinstance(element, llvm.LLVMPointerType):
        return lowering.emit.insert(llvm.PtrToIntOp(value, res=vector_of(i64, count)))
    return value


def from_data(value: Value, element: FloatType | IntegerType, lowering: FunctionLowering) -> Value:
    """The inverse of `as_data`: the elements, of LLVM type `element`."""
    if element is i1:
        return lowering.emit.insert(llvm.TruncOp(value, res=vector_of(i1, count_of(value.type))))
    return _from_address(value, element, lowering)


def from_memory(value: Value, element: Type, lowering: FunctionLowering) -> Value:
    """Likewise for values in the kernel's memory, where any byte but zero is true."""
    if element is i1:
        return lowering.emit.icmp("ne", value, lowering.emit.integer(0, value.type))
    return _from_address(value, element, lowering)


def _from_address(value: Value, element: Type, lowering: FunctionLowering) -> Value:
    if isinstance(element, llvm.LLVMPointerType):
        return lowering.emit.insert(llvm.IntToPtrOp(value, res=vector_of(element, count_of(value.type))))
    return value


def load_vector(
    lowering: FunctionLowering,
    pointer: Value,
    offset: int,
    type: Type,
    predicate: Value | None = None,
    other: Value | None = None,
    ordering: str = "",
) -> Value:
    """A value of `type` from `pointer` + `offset` bytes, aligned to its size.

    Where `predicate` is false memory is not touched and the value is `other` (zero without it).  `ordering` is as
    `ordering_of` gives it.
    """
    emit = lowering.emit
    space = pointer.type.address_space
    if predicate is None and not ordering:
        size = element_of(type).width * count_of(type) // 8
        return emit.insert(llvm.LoadOp(emit.gep(pointer, offset), alignment=size, res=type))
    word, count, bits = _words(type)
    letter = _LETTERS[word.width]
    outputs = [f"={letter}"] * count
    operands = f"{register_list(0, count)}, {address_text(count, offset)}"
    text = f"{mnemonic('ld', ordering, space, count, bits)} {operands};"
    result = word if count == 1 else llvm.LLVMStructType([word] * count)
    args: list[Value] = [pointer]
    constraints = [*outputs, "l" if space == 1 else "r"]
    if predicate is not None:
        text = f"@${count + 1} {text}"
        padding = emit.pack(other if other is not None else emit.zeros(type), word)
        args += [predicate, *(emit.extract(padding, i) for i in range(count))]
        constraints += ["b", *map(str, range(count))]
    loaded = emit.assembly(text, ",".join([*constraints, "~{memory}"]), args, result)
    words = loaded if count == 1 else emit.build([emit.member(loaded, i) for i in range(count)])
    return emit.unpack(words, type)


def store_vector(
    lowering: FunctionLowering,
    pointer: Value,
    offset: int,
    value: Value,
    predicate: Value | None = None,
    ordering: str = "",
) -> None:
    """Store to `pointer` + `offset` bytes, aligned to the value's size, where `predicate` holds."""
    emit = lowering.emit
    space = pointer.type.address_space
    if predicate is None and not ordering:
        size = element_of(value.type).width * count_of(value.type) // 8
        emit.insert(llvm.StoreOp(value, emit.gep(pointer, offset), alignment=size))
        return
    word, count, bits = _words(value.type)
    words = emit.pack(value, word)
    text = f"{mnemonic('st', ordering, space, count, bits)} {address_text(0, offset)}, {register_list(1, count)};"
    args = [pointer, *(emit.extract(words, i) for i in range(count))]
    constraints = ["l" if space == 1 else "r", *[_LETTERS[word.width]] * count]
    if predicate is not None:
        text = f"@${count + 1} {text}"
        args.append(predicate)
        constraints.append("b")
    emit.assembly(text, ",".join([*constraints, "~{memory}"]), args)


def guarded(
    lowering: FunctionLowering, op: nvvm.AtomOp | nvvm.RedOp, predicate: Value | None, otherwise: Value | None = None
) -> Value | None:
    """Insert an nvvm operation that is one instruction, executed where `predicate` holds.

    Returns its result, which is `otherwise` where the predicate does not hold; None for an operation without one.
    """
    emit = lowering.emit
    if predicate is None:
        emit.insert(op)
        return op.results[0] if op.results else None
    instruction = op.target()
    args = [*op.call_operands(), predicate]
    result = op.results[0].type if op.results else None
    op.drop_all_references()
    letters = instruction.constraints.split(",")
    last = len(letters) - 1  # operands end before the memory clobber
    letters.insert(last, "b")
    if otherwise is not None:
        # In threads where the guard is false, the register keeps the value that is tied to it.
        letters.insert(last + 1, "0")
        args.append(otherwise)
    return emit.assembly(f"@${last} {instruction.text}", ",".join(letters), args, result)
