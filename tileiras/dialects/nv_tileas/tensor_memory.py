"""Tensor memory (sm_100): accumulators in it, the dots that add to them, and the operations that order these.

    %m = nv_tileas.tensor_memory.reserve {commits = 2 : i32}         columns for the CTA, mbarriers for commits
    %base = nv_tileas.tensor_memory.open %m                          the address of the columns, read by all threads
    %t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x128xf32, #tensor>>
    nv_tileas.tensor_memory.store %c into %t                         threads write a tile
    nv_tileas.tensor_memory.dot %a, %b into %t if %adds              one thread has the tensor core add to it
    %n1 = nv_tileas.tensor_memory.commit %m, %n                      the dots since the last commit form a group
    nv_tileas.tensor_memory.wait %m, %n1 {pending = 0 : i32}         all groups but the last `pending` are complete
    %x = nv_tileas.tensor_memory.load %t                             threads read the tile
    %p = nv_tileas.tensor_memory.slice %t[%i, %j]                    a part of a buffer
    nv_tileas.tensor_memory.dealloc %t
    nv_tileas.tensor_memory.release %m

Groups are counted from the start of the function, in a number that loops carry: it determines at which mbarrier the
commit of a group arrives, and in which phase.  A buffer occupies some of the reserved columns; it is not a tile, and no
thread holds a fragment of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith import integer_like
from tileiras.ir import (
    AnyOf,
    Attribute,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    Pure,
    StringAttr,
    TensorType,
    Type,
    UnitAttr,
    Value,
    VerifyError,
    attribute,
    f32,
    i1,
    i32,
    operand,
    optional_operand,
    optional_result,
    result,
    variadic_operand,
)
from tileiras.support import gf2

from .attributes import Basis, LinearLayoutAttr, MmaAtomAttr, flattened, print_bases
from .buffers import SharedLayoutAttr, WrapperType
from .names import TENSOR_MEMORY
from .ops import all_columns

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

LANE_BITS, COLUMN_BITS = 7, 9
"""128 lanes of 512 columns (PTX ISA, "Tensor Memory Addressing")."""

MOST_COMMITS = 64
"""The most mbarriers of a reservation."""


class TensorLayoutAttr(Attribute, name="nv_tileas.tensor", parameters=("lane", "column", "element")):
    """Where the elements of a tile lie in tensor memory: the tile coordinates of each bit of the lane and of the
    column, from its first column on, and, where a column holds several elements, of their index in it.  A bit with zero
    coordinates is clear in all lanes, or columns, that are used."""

    asm_alias = "tensor"
    lane: tuple[Basis, ...]
    column: tuple[Basis, ...]
    element: tuple[Basis, ...]

    def __new__(
        cls, lane: Iterable[Iterable[int]], column: Iterable[Iterable[int]], element: Iterable[Iterable[int]] = ()
    ) -> "TensorLayoutAttr":
        bases = (tuple(map(tuple, lane)), tuple(map(tuple, column)), tuple(map(tuple, element)))
        return cls.intern(bases)  # type: ignore[return-value]

    def verify_encoding(self, shape: tuple[int, ...]) -> None:
        """Raise VerifyError unless tiles of this shape can have the layout."""
        if len(self.lane) != LANE_BITS or len(self.column) > COLUMN_BITS:
            lanes, columns = 1 << len(self.lane), 1 << len(self.column)
            raise VerifyError(f"tensor memory has 128 lanes of 512 columns, not {lanes} of {columns}")
        bases = [basis for basis in (*self.element, *self.lane, *self.column) if any(basis)]
        for basis in (*self.element, *self.lane, *self.column):
            if len(basis) != len(shape) or not all(0 <= at < n for at, n in zip(basis, shape)):
                raise VerifyError(f"basis {list(basis)} lies outside the tensor")
        size = 1
        for n in shape:
            size *= n
        rank = gf2.rank(flattened(basis, shape) for basis in bases)
        distinct = rank == len(bases) and all(map(any, self.element))
        if any(n & n - 1 for n in shape) or not distinct or 1 << rank != size:
            raise VerifyError(f"the layout does not hold every element of a tile of shape {list(shape)} once")

    def print_parameters(self, printer: Printer) -> None:
        element = f", element = {print_bases(self.element)}" if self.element else ""
        printer.write(f"<lane = {print_bases(self.lane)}, column = {print_bases(self.column)}{element}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "TensorLayoutAttr":
        parser.parse_punctuation("<")
        parameters = []
        for name in ("lane", "column", "element"):
            if name == "element" and not parser.parse_optional_punctuation(","):
                break
            if name == "column":
                parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            parameters.append(
                parser.parse_comma_separated(
                    lambda: parser.parse_comma_separated(parser.parse_integer, "[", "]"), "[", "]"
                )
            )
        parser.parse_punctuation(">")
        return cls(*parameters)


class TensorMemoryType(Type, name="nv_tileas.tensor_memory"):
    """The columns of tensor memory that a CTA has allocated, and the mbarriers of its groups of dots."""


class TensorBufferType(WrapperType, name="nv_tileas.tensor_buffer", parameters=("tile",)):
    """A tile in tensor memory."""

    def verify(self) -> None:
        if not isinstance(self.tile, TensorType) or not isinstance(self.tile.encoding, TensorLayoutAttr):
            raise VerifyError("expected a tensor with a layout of tensor memory", prefix=False)
        width = self.tile.element_type.width
        if width not in (16, 32):
            raise VerifyError(f"expected elements of 16 or 32 bits, got {self.tile.element_type}", prefix=False)
        if width << len(self.tile.encoding.element) > 32:
            raise VerifyError(f"a column has 32 bits, not {width << len(self.tile.encoding.element)}", prefix=False)

    @property
    def columns(self) -> int:
        """The number of columns that it occupies."""
        return 1 << len(self.tile.encoding.column)


# ---- resources of the CTA --------------------------------------------------------------------------------------------


class TensorReserveOp(Operation, name=f"{TENSOR_MEMORY}reserve", traits=(MemoryWrite,)):
    """One warp allocates the columns and relinquishes the allocation permit; one thread initialises the mbarriers.  The
    other threads may use both after a barrier.  For a pair of CTAs, whose commits arrive at the mbarriers of both, it
    is a cluster barrier."""

    commits = attribute(IntegerAttr, "mbarriers that groups arrive at in turn, a power of two; 0 for no groups")
    columns = attribute(IntegerAttr, "that are allocated, a power of two from 32 to 512", optional=True)
    pair = attribute(UnitAttr, "the CTA and its peer allocate together, and dots are of both", optional=True)
    offset = attribute(IntegerAttr, "of the mbarriers and the address, in bytes of the arena", optional=True)
    result = result(TensorMemoryType)
    assembly_format = "attr-dict"

    MBARRIER_BYTES = 8

    @property
    def bytes(self) -> int:
        """Bytes of shared memory for the mbarriers and, after them, the address of the columns."""
        return (self.commits.value + 1) * self.MBARRIER_BYTES

    def verify_op(self) -> None:
        commits = self.commits.value
        if self.commits.type is not i32 or not 0 <= commits <= MOST_COMMITS or commits & commits - 1:
            raise VerifyError(f"expects a power of two of mbarriers as i32, at most {MOST_COMMITS}, got {commits}")
        if self.columns is not None and self.columns.value not in (32, 64, 128, 256, 512):
            raise VerifyError(f"allocates 32, 64, 128, 256 or 512 columns, not {self.columns.value}")


class TensorOpenOp(Operation, name=f"{TENSOR_MEMORY}open", traits=(MemoryRead,)):
    """The address of the first of the columns; it stands after a barrier that follows `reserve`."""

    memory = operand(TensorMemoryType)
    result = result(i32)
    assembly_format = "$memory attr-dict"


class TensorReleaseOp(Operation, name=f"{TENSOR_MEMORY}release", traits=(MemoryRead, MemoryWrite)):
    """One warp frees the columns."""

    memory = operand(TensorMemoryType)
    assembly_format = "$memory attr-dict"


# ---- tiles -----------------------------------------------------------------------------------------------------------


class TensorAllocOp(Operation, name=f"{TENSOR_MEMORY}alloc"):
    """Allocates a buffer, which is live until its `dealloc`. A buffer `over` another one shares the other's first
    columns and alternates with it: the contents of one are used before the other is written."""

    base = operand(i32, "the address of the CTA's first column")
    over = optional_operand(TensorBufferType)
    column = attribute(IntegerAttr, "first column, counted from there", optional=True)
    result = result(TensorBufferType)
    assembly_format = "$base (`over` $over^)? attr-dict `:` type($result) (`,` type($over)^)?"

    def verify_op(self) -> None:
        if self.base.type is not i32:
            raise VerifyError(f"expects an address as i32, got {self.base.type}")
        if self.over is None:
            return
        if not isinstance(self.over.defining_op, TensorAllocOp) or self.over.defining_op.over is not None:
            raise VerifyError("expects to be over a buffer that has columns of its own")
        if self.result.type.columns > self.over.type.columns:
            columns = self.result.type.columns, self.over.type.columns
            raise VerifyError(f"has {columns[0]} columns, over a buffer of {columns[1]}")


class TensorSliceOp(Operation, name=f"{TENSOR_MEMORY}slice", traits=(Pure,)):
    """The part of a buffer at `coords`, counted in parts of the result's shape; its columns are contiguous."""

    buffer = operand(TensorBufferType)
    coords = variadic_operand(integer_like)
    result = result(TensorBufferType)
    assembly_format = (
        "$buffer `[` $coords `]` attr-dict `:` type($buffer) `,` `(` type($coords) `)` `->` type($result)"
    )

    def verify_op(self) -> None:
        whole, part = self.buffer.type.tile, self.result.type.tile
        if part.element_type is not whole.element_type or len(self.coords) != whole.rank or part.rank != whole.rank:
            raise VerifyError(f"expects a coordinate for each dimension and elements like {whole}, got {part}")
        if any(n % size for n, size in zip(whole.shape, part.shape)):
            raise VerifyError(f"cannot cut {whole} into {part}")
        layout, first = part.encoding, whole.encoding.column[: len(part.encoding.column)]
        if (layout.lane, layout.column, layout.element) != (whole.encoding.lane, first, whole.encoding.element):
            raise VerifyError(f"has other lanes or columns than the first part of the buffer: {part}")


def allocation_of(buffer: Value) -> Value:
    """The allocation that contains a buffer: the buffer itself, or the one that it is a slice of."""
    while isinstance(buffer.defining_op, TensorSliceOp):
        buffer = buffer.defining_op.buffer
    return buffer


class TensorDeallocOp(Operation, name=f"{TENSOR_MEMORY}dealloc"):
    """Ends the lifetime of a buffer: its columns may be reused."""

    buffer = operand(TensorBufferType)
    assembly_format = "$buffer attr-dict `:` type($buffer)"


def _check_tile(type: TensorType, buffer: TensorBufferType) -> None:
    tile = buffer.tile
    if (type.shape, type.element_type) != (tile.shape, tile.element_type):
        raise VerifyError(f"expects a tile like {tile}, got {type}")
    if not isinstance(type.encoding, LinearLayoutAttr):
        raise VerifyError("fails to assign layout")


class TensorLoadOp(Operation, name=f"{TENSOR_MEMORY}load", traits=(MemoryRead,)):
    """Reads the tile in a buffer into registers; the dots that write it have been waited for.  `fenced`: later dots and
    stores of other threads are ordered after the load by `tcgen05.fence::before_thread_sync`. `behind`: the dots are
    ordered before it by the `tcgen05.fence::after_thread_sync` of another load.  With a `reduction`, as in
    `tcgen05.ld.red`, it also returns the reduction of each thread's part of a row."""

    buffer = operand(TensorBufferType)
    fenced = attribute(UnitAttr, optional=True)
    behind = attribute(UnitAttr, optional=True)
    reduction = attribute(StringAttr, "max or min, and .NaN where it keeps those", optional=True)
    result = result(TensorType)
    partial = optional_result(TensorType)
    assembly_format = "$buffer attr-dict `:` type($buffer) `->` type($result) (`,` type($partial)^)?"

    def verify_op(self) -> None:
        _check_tile(self.result.type, self.buffer.type)
        if (self.reduction is None) != (self.partial is None):
            raise VerifyError("returns the reduction of rows exactly if it has a 'reduction'")


class TensorStoreOp(Operation, name=f"{TENSOR_MEMORY}store", traits=(MemoryWrite,)):
    """Writes a tile to a buffer, complete when the operation ends; `fenced` as in `load`. `overwrites`: other threads
    have used its columns for another tile, after which `tcgen05.fence::after_thread_sync` orders the store."""

    tile = operand(TensorType)
    buffer = operand(TensorBufferType)
    fenced = attribute(UnitAttr, optional=True)
    overwrites = attribute(UnitAttr, optional=True)
    assembly_format = "$tile `into` $buffer attr-dict `:` type($tile) `,` type($buffer)"

    def verify_op(self) -> None:
        _check_tile(self.tile.type, self.buffer.type)


class TensorScaleOp(Operation, name=f"{TENSOR_MEMORY}scale", traits=(MemoryRead, MemoryWrite)):
    """Multiplies the tile in a buffer by another one element by element, a few columns at a time: no thread holds its
    whole fragment.  `fenced` and `behind` as in `load`; `flush_to_zero` as in a multiplication of f32."""

    factor = operand(TensorType)
    buffer = operand(TensorBufferType)
    at_once = attribute(IntegerAttr, "elements of a thread, at most, in registers at a time", optional=True)
    fenced = attribute(UnitAttr, optional=True)
    behind = attribute(UnitAttr, optional=True)
    flush_to_zero = attribute(UnitAttr, optional=True)
    assembly_format = "$buffer `by` $factor attr-dict `:` type($buffer) `,` type($factor)"

    def verify_op(self) -> None:
        _check_tile(self.factor.type, self.buffer.type)
        if self.factor.type.element_type is not f32:
            raise VerifyError(f"multiplies elements of f32, not {self.factor.type.element_type}")


class TensorDotOp(Operation, name=f"{TENSOR_MEMORY}dot"):
    """Adds `a @ b` to the contents of a buffer, or overwrites them where `adds` is false; complete after a wait.

    One thread issues it.  A lies in shared or tensor memory, B in shared memory.  `exchanged`: the instruction's A is
    the transposed B, and its B the transposed A. `group`: of the instructions for several blocks of rows, the one that
    is issued, for the rows of one warpgroup.  `scales`: tiles in shared memory with a scale for each block along K of a
    row of A and of a column of B, and the tensor memory buffers to which the thread has them copied first.  `fenced`:
    loads and stores of other threads before it are ordered by `tcgen05.fence::after_thread_sync`.

    Where the atom is one of a pair of CTAs, the CTA of even rank issues the dot for both, and B is the half of the
    columns that this CTA has.
    """

    traits = (MemoryRead, MemoryWrite)
    a = operand(AnyOf(TensorType, TensorBufferType), "M x K")
    b = operand(TensorType, "K x N")
    buffer = operand(TensorBufferType, "M x N")
    adds = operand(i1)
    scales = variadic_operand(AnyOf(TensorType, TensorBufferType), "those of A and of B, and where they go")
    atom = attribute(MmaAtomAttr)
    signedness_a = attribute(aa.SignednessAttr, "of integer elements", optional=True)
    signedness_b = attribute(aa.SignednessAttr, "of integer elements", optional=True)
    exchanged = attribute(UnitAttr, optional=True)
    group = attribute(IntegerAttr, "of the rows of one instruction", optional=True)
    fenced = attribute(UnitAttr, optional=True)
    assembly_format = (
        "$a `,` $b `into` $buffer `if` $adds (`scale` $scales^)? attr-dict `:` type($a) `,` type($b) `,`"
        " type($buffer) (`,` type($scales)^)?"
    )

    @property
    def c(self) -> Value:
        """The buffer of the accumulator, by the name that it has in other dots."""
        return self.buffer

    def verify_op(self) -> None:
        for side, type in (("A", self.a.type), ("B", self.b.type)):
            if isinstance(type, TensorType) and not isinstance(type.encoding, SharedLayoutAttr):
                raise VerifyError(f"expects {side} in shared memory")
        a: TensorType = getattr(self.a.type, "tile", self.a.type)
        b = all_columns(self.b.type, self.atom)
        (*_, m, k), (*_, depth, n), tile = a.shape, b.shape, self.buffer.type.tile.shape
        if k != depth or tile != (m, n):
            raise VerifyError(f"does not multiply {m}x{k} and {depth}x{n} into {list(tile)}")
        kinds = [isinstance(value.type, TensorBufferType) for value in self.scales]
        if kinds not in ([], [False, False, True, True]):
            raise VerifyError("expects two tiles of scales and two buffers for them")


# ---- order -----------------------------------------------------------------------------------------------------------


class TensorCommitOp(Operation, name=f"{TENSOR_MEMORY}commit", traits=(MemoryRead, MemoryWrite)):
    """The dots since the last commit form a group, which follows `count` earlier groups."""

    memory = operand(TensorMemoryType)
    count = operand(i32, "groups before it")
    result = result(i32)
    assembly_format = "$memory `,` $count attr-dict"


class TensorWaitOp(Operation, name=f"{TENSOR_MEMORY}wait", traits=(MemoryRead, MemoryWrite)):
    """Waits until all of `count` groups but the last `pending` are complete."""

    memory = operand(TensorMemoryType)
    count = operand(i32)
    pending = attribute(IntegerAttr)
    assembly_format = "$memory `,` $count attr-dict"

    def verify_op(self) -> None:
        if self.pending.type is not i32 or not 0 <= self.pending.value < MOST_COMMITS:
            raise VerifyError(f"expects a number of groups as i32, from 0 to {MOST_COMMITS - 1}")
