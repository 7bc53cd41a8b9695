"""LLVM IR text of one function: instructions, loops, and indices that are numbers as long as they are known."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

Index = int | str
"""An index of 64 bits: a number, or the name of the value."""


def vector(type: str, count: int) -> str:
    """The LLVM type of `count` elements; one element is a scalar."""
    return type if count == 1 else f"<{count} x {type}>"


def constant(type: str, count: int, text: str | int) -> str:
    """A constant with equal elements."""
    return str(text) if count == 1 else f"splat ({type} {text})"


def float_literal(value: float, type: str = "float") -> str:
    """A float constant; `value` is rounded to f32 first for that type."""
    if type == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Loop:
    """A loop whose body is under construction: its index, and the values carried from iteration to iteration."""

    def __init__(self, index: Index, carried: list[str]) -> None:
        self.index = index
        self.carried = carried
        self.results: list[str] = list(carried)
        """The carried values at the end of the body; after the loop, those that it leaves."""


class Code:
    """The lines of a function, and the functions that they call."""

    def __init__(self, long_double: str = "", has_scale: bool = False) -> None:
        self.long_double = long_double
        """LLVM's type of C's long double, if it is wider than f64."""
        self.has_scale = has_scale
        """Whether an instruction multiplies by powers of two (AVX-512)."""
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        """Definitions of further functions of the module."""
        self.block = "entry"
        self._count = 0

    # -- instructions ------------------------------------------------------------------------------------------------

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """The result of an instruction."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def call(self, function: str, result: str, arguments: Sequence[tuple[str, str]], attributes: str = "") -> str:
        """A call, and the declaration of the function; returns the result's name, nothing for void."""
        value = ", ".join(f"{type} {name}" for type, name in arguments)
        types = ", ".join(type for type, _ in arguments)
        self.declarations[function] = f"declare {result} @{function}({types})"
        text = f"call {attributes}{result} @{function}({value})"
        if result == "void":
            self.do(text)
            return ""
        return self.value(text)

    def intrinsic(self, name: str, type: str, count: int, *operands: str, more: Sequence[tuple[str, str]] = ()) -> str:
        """An elementwise intrinsic, `llvm.NAME.TYPE`, on operands of one type."""
        whole = vector(type, count)
        return self.call(
            f"llvm.{name}.{suffix(type, count)}", whole, [*((whole, operand) for operand in operands), *more]
        )

    # -- blocks ------------------------------------------------------------------------------------------------------

    def label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def phi(self, type: str, incoming: Sequence[tuple[str, str]]) -> str:
        return self.value(f"phi {type} " + ", ".join(f"[ {value}, %{block} ]" for value, block in incoming))

    def hole(self) -> tuple[str, int]:
        """A value whose instruction follows later (`fill`): its name and its line."""
        self._count += 1
        self.lines.append("")
        return f"%v{self._count}", len(self.lines) - 1

    def fill(self, hole: tuple[str, int], text: str) -> None:
        self.lines[hole[1]] = f"  {hole[0]} = {text}"

    @contextlib.contextmanager
    def loop(self, count: int, step: int = 1, carried: Sequence[tuple[str, str]] = ()) -> Iterator[Loop]:
        """A loop over 0, `step`, ... below `count`, which is positive; `carried` are types and first values.

        The body sets `results` of the loop; a loop with one iteration is no loop.
        """
        if count <= step:
            yield Loop(0, [value for _, value in carried])
            return
        body, after, before = self.label("loop"), self.label("after"), self.block
        self.jump(body)
        self.start(body)
        index = self.hole()
        holes = [self.hole() for _ in carried]
        loop = Loop(index[0], [name for name, _ in holes])
        yield loop
        following = self.value(f"add nuw nsw i64 {index[0]}, {step}")
        again = self.value(f"icmp ult i64 {following}, {count}")
        self.branch(again, body, after)
        self.fill(index, f"phi i64 [ 0, %{before} ], [ {following}, %{self.block} ]")
        for hole, (type, first), result in zip(holes, carried, loop.results, strict=True):
            self.fill(hole, f"phi {type} [ {first}, %{before} ], [ {result}, %{self.block} ]")
        self.start(after)

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A block that runs if the condition holds."""
        inside, after = self.label("then"), self.label("end")
        self.branch(condition, inside, after)
        self.start(inside)
        yield
        self.jump(after)
        self.start(after)

    # -- indices -----------------------------------------------------------------------------------------------------

    def add(self, left: Index, right: Index) -> Index:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if left == 0:
            return right
        return left if right == 0 else self.value(f"add i64 {left}, {right}")

    def multiply(self, left: Index, right: Index) -> Index:
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        if left == 0 or right == 0:
            return 0
        if left == 1:
            return right
        return left if right == 1 else self.value(f"mul i64 {left}, {right}")

    def divide(self, left: Index, right: int) -> tuple[Index, Index]:
        """Quotient and remainder of an index that is not negative."""
        if right == 1:
            return left, 0
        if isinstance(left, int):
            return divmod(left, right)
        return self.value(f"udiv i64 {left}, {right}"), self.value(f"urem i64 {left}, {right}")

    def linear(self, index: Sequence[Index], shape: Sequence[int]) -> Index:
        """The position of an element in row-major order."""
        position: Index = 0
        for number, size in zip(index, shape, strict=True):
            position = self.add(self.multiply(position, size), number if size != 1 else 0)
        return position

    # -- addresses ---------------------------------------------------------------------------------------------------

    def offset(self, pointer: str, index: Index, type: str) -> str:
        """The address of an element of an array."""
        return pointer if index == 0 else self.value(f"getelementptr {type}, ptr {pointer}, i64 {index}")

    def pointer(self, address: str) -> str:
        """An address of 64 bits as a pointer."""
        return self.value(f"inttoptr i64 {address} to ptr")

    # -- vectors -----------------------------------------------------------------------------------------------------

    def splat(self, type: str, count: int, element: str) -> str:
        if count == 1:
            return element
        whole = vector(type, count)
        first = self.value(f"insertelement {whole} poison, {type} {element}, i64 0")
        return self.value(f"shufflevector {whole} {first}, {whole} poison, <{count} x i32> zeroinitializer")

    def element(self, type: str, count: int, whole: str, lane: int) -> str:
        return whole if count == 1 else self.value(f"extractelement {vector(type, count)} {whole}, i64 {lane}")

    def shuffle(self, type: str, count: int, whole: str, lanes: Sequence[int], other: str = "poison") -> str:
        """The lanes of a vector, counted on in `other`, as a vector or an element."""
        if len(lanes) == 1:
            return self.element(type, count, whole, lanes[0])
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        kind = vector(type, count)
        return self.value(f"shufflevector {kind} {whole}, {kind} {other}, <{len(lanes)} x i32> <{order}>")

    def ramp(self, count: int, type: str = "i64", step: int = 1) -> str:
        """0, `step`, 2 * `step`, ... as a constant."""
        if count == 1:
            return "0"
        return "<" + ", ".join(f"{type} {lane * step}" for lane in range(count)) + ">"


_SUFFIXES = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}


def suffix(type: str, count: int = 1) -> str:
    """A type in the name of an intrinsic."""
    name = _SUFFIXES.get(type, type)
    return name if count == 1 else f"v{count}{name}"
