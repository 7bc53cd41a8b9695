"""Accesses of multicast memory (PTX ISA, "multimem"): one address stands for a copy on every device of a team.

Halves move in pairs.  Where only one half of a word is meant, at an edge or at any stride, a load reads the whole word;
a sum leaves the other half as it is by adding -0; a store clears its half and then sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import llvm
from tileiras.ir import FloatType, IntegerType, Type, Value, f16, i16, i32, i64

from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, vector_of
from .access import address_text, register_list

MIN_PTX = "8.2"
"""The PTX version of `.acc::f32`; the instructions themselves are one version older."""

_NEGATIVE_ZERO = 0x8000
"""In either half format: the neutral element of a sum, for every number."""

# nv_tileaa's names of the modes -> (operation, kind of the type).
_OPERATIONS = {
    "add": ("add", "u"),
    "addf": ("add", ""),
    "min": ("min", "s"),
    "max": ("max", "s"),
    "umin": ("min", "u"),
    "umax": ("max", "u"),
    "and": ("and", "b"),
    "or": ("or", "b"),
    "xor": ("xor", "b"),
}
_LETTERS = {"i32": "r", "i64": "l", "f32": "f", "f64": "d"}


def _has_vectors(element: FloatType | IntegerType) -> bool:
    """Whether one instruction moves several words of it: f32 and pairs of halves."""
    return isinstance(element, FloatType) and element.width < 64


def _is_half(type: FloatType | IntegerType) -> bool:
    return isinstance(type, FloatType) and type.width == 16


def _words(type: Type) -> tuple[str, str, Any, int]:
    """(PTX type, register letter, LLVM type of a register, registers) of an access of whole words."""
    element, count = element_of(type), count_of(type)
    if _is_half(element):
        return ("f16x2" if element is f16 else "bf16x2"), "r", i32, count // 2
    return str(element), _LETTERS[str(element)], element, count


def _ptx_type(name: str, kind: str) -> str:
    return kind + name[1:] if name[0] == "i" else name


def _access(
    lowering: FunctionLowering, name: str, vector: int, type_name: str, address: Value, offset: int, outputs: int,
    values: Sequence[Value], letter: str, predicate: Value | None, others: Sequence[Value], result: Type | None,
) -> Any:  # fmt: skip
    """One instruction; under a false predicate the outputs are `others`."""
    count = outputs or len(values)
    at = outputs
    listed = register_list(0 if outputs else 1, count)
    place = address_text(at, offset)
    suffix = f".v{vector}" if vector > 1 else ""
    operands = f"{listed}, {place}" if outputs else f"{place}, {listed}"
    text = f"multimem.{name}{suffix}.{type_name} {operands};"
    constraints = [f"={letter}"] * outputs + ["l"] + [letter] * len(values)
    args = [address, *values]
    if predicate is not None:
        text = f"@${at + 1 + len(values)} {text}"
        constraints += ["b", *map(str, range(outputs))]
        args += [predicate, *others]
    letters = ",".join([*constraints, "~{memory}"])
    return lowering.emit.assembly(text, letters, args, result, min_ptx=MIN_PTX)


def _half_place(pointer: Value, offset: int, lowering: FunctionLowering) -> tuple[Value, Value]:
    """The address of the word that a half lies in, and by how many bits the half is above the word's lowest."""
    emit = lowering.emit
    address = emit.insert(llvm.PtrToIntOp(emit.gep(pointer, offset), res=i64))
    word = emit.insert(llvm.IntToPtrOp(emit.and_(address, -4, i64), res=pointer.type))
    low = emit.insert(llvm.TruncOp(address, res=i32))
    return word, emit.value(emit.shl(emit.and_(low, 2), 3))


def load(mode: str) -> Callable[..., Value]:
    """A function like access.load_vector that combines all copies."""
    operation, kind = _OPERATIONS[mode]

    def load_vector(
        lowering: FunctionLowering, pointer: Value, offset: int, type: Type, predicate: Value | None = None,
        other: Value | None = None, ordering: str = "",
    ) -> Value:  # fmt: skip
        emit = lowering.emit
        element = element_of(type)
        # Sums of halves are accumulated in f32.
        precision = ".acc::f32" if mode == "addf" and _is_half(element) else ""
        name = f"ld_reduce{ordering or '.weak'}.global.{operation}{precision}"
        if _is_half(element) and count_of(type) == 1:
            word, shift = _half_place(pointer, offset, lowering)
            nothing = emit.integer(0)
            if predicate is not None and other is not None:
                nothing = emit.insert(llvm.ShlOp(emit.pack(other, i32), shift))
            type_name = _words(vector_of(element, 2))[0]
            loaded = _access(lowering, name, 1, type_name, word, 0, 1, (), "r", predicate, [nothing], i32)
            half = emit.insert(llvm.TruncOp(emit.insert(llvm.LShrOp(loaded, shift)), res=i16))
            return emit.bitcast(half, element)
        type_name, letter, register, count = _words(type)
        padding = emit.bitcast(other if other is not None else emit.zeros(type), vector_of(register, count))
        others = [emit.extract(padding, n) for n in range(count)] if predicate is not None else []
        if _has_vectors(element):
            result = register if count == 1 else llvm.LLVMStructType([register] * count)
            access = _access(
                lowering, name, count, type_name, pointer, offset, count, (), letter, predicate, others, result
            )
            parts = [access] if count == 1 else [emit.member(access, n) for n in range(count)]
        else:
            size = register.width // 8
            parts = [
                _access(lowering, name, 1, _ptx_type(type_name, kind), pointer, offset + n * size, 1, (), letter,
                        predicate, others[n : n + 1], register)
                for n in range(count)
            ]  # fmt: skip
        return emit.bitcast(emit.build(parts), type)

    return load_vector


def store_vector(
    lowering: FunctionLowering, pointer: Value, offset: int, value: Value, predicate: Value | None = None,
    ordering: str = "",
) -> None:  # fmt: skip
    """Like access.store_vector, to every copy."""
    emit = lowering.emit
    element = element_of(value.type)
    if _is_half(element) and count_of(value.type) == 1:
        word, shift = _half_place(pointer, offset, lowering)
        keep = emit.insert(llvm.ShlOp(emit.integer(0xFFFF), shift))
        keep = emit.insert(llvm.XOrOp(keep, emit.integer(-1)))
        shifted_word = emit.insert(llvm.ShlOp(emit.pack(value, i32), shift))
        order = ordering or ".relaxed.sys"
        for operation, operand in (("and", keep), ("or", shifted_word)):
            name = f"red{order}.global.{operation}"
            _access(lowering, name, 1, "b32", word, 0, 0, [operand], "r", predicate, (), None)
        return
    _write(f"st{ordering or '.weak'}.global", "b", lowering, pointer, offset, value, predicate)


def reduce(
    lowering: FunctionLowering, mode: str, pointer: Value, value: Value, predicate: Value | None, ordering: str
) -> None:
    """Combine one element into every copy."""
    emit = lowering.emit
    operation, kind = _OPERATIONS[mode]
    name = f"red{ordering}.global.{operation}"
    if not _is_half(value.type):
        _write(name, kind, lowering, pointer, 0, value, predicate)
        return
    word, shift = _half_place(pointer, 0, lowering)
    # The shift moves it into the other half: the upper one for a half in the lower place, and vice versa.
    other = emit.insert(llvm.LShrOp(emit.integer(_NEGATIVE_ZERO << 16), shift))
    pair = emit.insert(llvm.OrOp(emit.insert(llvm.ShlOp(emit.pack(value, i32), shift)), other))
    type_name = _words(vector_of(value.type, 2))[0]
    _access(lowering, name, 1, type_name, word, 0, 0, [pair], "r", predicate, (), None)


def _write(
    name: str, kind: str, lowering: FunctionLowering, pointer: Value, offset: int, value: Value, predicate: Value | None
) -> None:
    emit = lowering.emit
    type_name, letter, register, count = _words(value.type)
    words = emit.bitcast(value, vector_of(register, count))
    parts = [emit.extract(words, n) for n in range(count)]
    if not _has_vectors(element_of(value.type)):
        size = register.width // 8
        for n, part in enumerate(parts):
            place = offset + n * size
            _access(
                lowering, name, 1, _ptx_type(type_name, kind), pointer, place, 0, [part], letter, predicate, (), None
            )
        return
    _access(lowering, name, count, type_name, pointer, offset, 0, parts, letter, predicate, (), None)
