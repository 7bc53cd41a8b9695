"""Tiles in shared memory: buffers of several stages, the asynchronous copies that fill them, and reads from them.

A software-pipelined loop with S stages has this form:

    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<S, tensor<...>>
    copies of the first S - 1 iterations, each followed by a commit_group
    scf.for ... iter_args(..., %read, %write) {
      %t = nv_tileas.async.wait {pending = S - 2 : i32}
      nv_tileas.async.tiled_load ... into %b[%write]
      nv_tileas.async.commit_group
      %x = nv_tileas.copy %b[%read]
    }
    nv_tileas.dealloc_tensor %b

A buffer of tiles with a register layout holds the registers of each thread: only `store_tensor`, `copy` and
`async.tiled_load` of tiles with this very layout use it, and each thread sees only its own stores and copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith import bool_like, integer_like
from tileiras.dialects.nv_tileaa.memory import pointer_like
from tileiras.ir import (
    Attribute,
    AttrSizedOperandSegments,
    FloatType,
    IntegerAttr,
    IntegerType,
    MemoryRead,
    MemoryWrite,
    Operation,
    TensorType,
    Type,
    UnitAttr,
    Value,
    VerifyError,
    attribute,
    i32,
    operand,
    optional_operand,
    result,
    variadic_operand,
)
from tileiras.support import gf2

from .attributes import Basis, CopyAtomAttr, LinearLayoutAttr, flattened, print_bases
from .names import CREATE_PIPELINE

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

_WEAK = aa.MemSemanticAttr("weak")


class SharedLayoutAttr(Attribute, name="nv_tileas.shared", parameters=("offset",), asm_alias="shared"):
    """Where the elements of a tile lie in shared memory: the tile coordinates of each bit of the offset, counted in
    elements; bits combine by exclusive or.  A bit with zero coordinates is padding: no element lies at offsets that
    have it set."""

    offset: tuple[Basis, ...]

    def __new__(cls, offset: Iterable[Iterable[int]]) -> "SharedLayoutAttr":
        return cls.intern((tuple(tuple(basis) for basis in offset),))  # type: ignore[return-value]

    def verify_encoding(self, shape: tuple[int, ...]) -> None:
        """Raise VerifyError unless tiles of this shape can have the layout."""
        size = 1
        for n in shape:
            size *= n
        bases = [basis for basis in self.offset if any(basis)]
        if 1 << len(bases) != size:
            raise VerifyError(f"{len(bases)} offset bits do not hold a tile of {size} elements")
        for basis in self.offset:
            if len(basis) != len(shape) or not all(0 <= at < n for at, n in zip(basis, shape)):
                raise VerifyError(f"offset basis {list(basis)} lies outside the tensor")
        rank = gf2.rank(flattened(basis, shape) for basis in self.offset)
        if any(n & n - 1 for n in shape) or rank < len(bases):
            raise VerifyError(f"the layout does not hold every element of a tile of shape {list(shape)}")

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<offset = {print_bases(self.offset)}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "SharedLayoutAttr":
        parser.parse_punctuation("<")
        parser.parse_keyword("offset")
        parser.parse_punctuation("=")
        bases = parser.parse_comma_separated(
            lambda: parser.parse_comma_separated(parser.parse_integer, "[", "]"), "[", "]"
        )
        parser.parse_punctuation(">")
        return cls(bases)


class WrapperType(Type):
    """A type with one parameter, another type, whose text is that one's in angle brackets."""

    def __new__(cls, wrapped: Type) -> "WrapperType":
        return cls.intern((wrapped,))  # type: ignore[return-value]

    def print_parameters(self, printer: Printer) -> None:
        (name,) = self.parameters
        printer.write("<")
        printer.print_type(getattr(self, name))
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "WrapperType":
        parser.parse_punctuation("<")
        wrapped = parser.parse_type()
        parser.parse_punctuation(">")
        return cls(wrapped)


class BufferType(Type, name="nv_tileas.buffer", parameters=("stages", "tile")):
    """`stages` consecutive tiles in shared memory; with a register layout, the elements of each thread."""

    def __new__(cls, stages: int, tile: TensorType) -> "BufferType":
        return cls.intern((stages, tile))  # type: ignore[return-value]

    def verify(self) -> None:
        if self.stages < 1:
            raise VerifyError("expected at least one stage", prefix=False)
        layouts = (SharedLayoutAttr, LinearLayoutAttr)
        if not isinstance(self.tile, TensorType) or not isinstance(self.tile.encoding, layouts):
            raise VerifyError("expected a tensor with a layout of shared memory or of registers", prefix=False)
        element = self.tile.element_type
        if not isinstance(element, (IntegerType, FloatType)) or element.width % 8:
            raise VerifyError(f"expected elements of whole bytes, got {element}", prefix=False)

    @property
    def is_of_registers(self) -> bool:
        """Whether each thread has a private place for its elements."""
        return isinstance(self.tile.encoding, LinearLayoutAttr)

    @property
    def thread_words(self) -> int:
        """The 32-bit words that a stage holds for each thread."""
        return -(-(self.tile.element_type.width << len(self.tile.encoding.register)) // 32)

    @property
    def stage_bytes(self) -> int:
        if self.is_of_registers:
            encoding = self.tile.encoding
            return 4 * self.thread_words << len(encoding.lane) + len(encoding.warp)
        return self.tile.element_type.width << len(self.tile.encoding.offset) >> 3

    @property
    def alignment(self) -> int:
        """The alignment of the address of every stage if the buffer has it: stages lie `stage_bytes` apart.  A layout
        whose tile is smaller than its copies or its readers require has padding behind it."""
        return self.stage_bytes & -self.stage_bytes

    @property
    def tile_bytes(self) -> int:
        """Bytes of the elements of a stage, without padding: the size of a copy."""
        return self.tile.num_elements * self.tile.element_type.width // 8

    @property
    def bytes(self) -> int:
        return self.stages * self.stage_bytes

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.stages}, ")
        printer.print_type(self.tile)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "BufferType":
        parser.parse_punctuation("<")
        stages = parser.parse_integer()
        parser.parse_punctuation(",")
        tile = parser.parse_type()
        parser.parse_punctuation(">")
        return cls(stages, tile)


class AllocTensorOp(Operation, name="nv_tileas.alloc_tensor"):
    """Allocates a buffer, which is live until its `dealloc_tensor`."""

    offset = attribute(IntegerAttr, "bytes from the start of the arena of shared memory", optional=True)
    result = result(BufferType)
    assembly_format = "attr-dict `:` type($result)"


class DeallocTensorOp(Operation, name="nv_tileas.dealloc_tensor"):
    """Ends the lifetime of a buffer: its memory may be reused."""

    buffer = operand(BufferType)
    assembly_format = "$buffer attr-dict `:` type($buffer)"


def check_stage(op: Operation) -> None:
    """Raise VerifyError unless the stage operand of `op` is an i32."""
    if op.stage.type is not i32:
        raise VerifyError(f"expects the number of a stage as i32, got {op.stage.type}")


def _is_own(op: CopyOp | StoreTensorOp, tile: TensorType, part: Value | IntegerAttr | None) -> bool:
    """Whether `op` moves each thread's elements between registers and its private place in the buffer; `part`: the part
    of the tile, if any.

    Raises VerifyError where the buffer is such a one and the tile has another layout.
    """
    if not op.buffer.type.is_of_registers:
        return False
    if tile is not op.buffer.type.tile or part is not None:
        raise VerifyError(f"expects the tile that each thread keeps, {op.buffer.type.tile}, got {tile}")
    return True


class _AsyncLoad(Operation):
    """A copy from global memory to one stage of a buffer, in flight until an `async.wait` for its group."""

    mem_semantic = _WEAK

    def _own_layout(self) -> LinearLayoutAttr | None:
        """The layout of buffers in which each thread copies only elements that it reads itself; None if the operation
        has no such layout."""
        return None

    def _check(self: Any, shape: tuple[int, ...], element: FloatType | IntegerType) -> None:
        check_stage(self)
        tile = self.buffer.type.tile
        if self.buffer.type.is_of_registers and tile.encoding is not self._own_layout():
            raise VerifyError(f"expects a buffer that all threads read, got {self.buffer.type}")
        if tile.shape != shape or tile.element_type is not element:
            raise VerifyError(f"expects a buffer of tiles of shape {list(shape)} and type {element}, got {tile}")


class AsyncTiledLoadOp(_AsyncLoad, name="nv_tileas.async.tiled_load", traits=(MemoryRead, AttrSizedOperandSegments)):
    """As `tiled_load`, into a stage; elements outside the memref become zero.  `layout` assigns elements to the threads
    that copy them."""

    view = operand(aa.TiledViewType)
    coords = variadic_operand(integer_like)
    buffer = operand(BufferType)
    stage = operand(integer_like)
    token = optional_operand(aa.MemTokenType)
    atom = attribute(CopyAtomAttr)
    layout = attribute(LinearLayoutAttr)
    assembly_format = (
        "$view `[` $coords `]` `into` $buffer `[` $stage `:` type($stage) `]` (`token` `=` $token^)? attr-dict"
        " `:` type($view) `,` `(` type($coords) `)` `,` type($buffer)"
    )

    def _own_layout(self) -> LinearLayoutAttr:
        return self.layout

    def verify_op(self) -> None:
        self._check(self.view.type.shape, self.view.type.element_type)
        self.layout.verify_encoding(self.view.type.shape)


class AsyncLoadOp(_AsyncLoad, name="nv_tileas.async.load", traits=(MemoryRead, AttrSizedOperandSegments)):
    """As `load`, into a stage; elements whose mask is false become zero.  Each thread copies through its own
    pointers."""

    pointer = operand(pointer_like)
    mask = optional_operand(bool_like)
    buffer = operand(BufferType)
    stage = operand(integer_like)
    token = optional_operand(aa.MemTokenType)
    atom = attribute(CopyAtomAttr)
    assembly_format = (
        "$pointer (`mask` `=` $mask^ `:` type($mask))? `into` $buffer `[` $stage `:` type($stage) `]`"
        " (`token` `=` $token^)? attr-dict `:` type($pointer) `,` type($buffer)"
    )

    def verify_op(self) -> None:
        if not isinstance(self.pointer.type, TensorType):
            raise VerifyError("expects a tensor of pointers")
        self._check(self.pointer.type.shape, self.pointer.type.element_type.pointee)


class AsyncCommitGroupOp(Operation, name="nv_tileas.async.commit_group", assembly_format="attr-dict"):
    """The thread's copies since its last `commit_group` form a group."""


class AsyncWaitOp(Operation, name="nv_tileas.async.wait", traits=(MemoryRead,)):
    """Waits until all groups but the last `pending` have arrived, those of all threads; with `own`, each thread waits
    for its own groups and does not see the copies of others.  The result token stands for the reads of the groups."""

    pending = attribute(IntegerAttr)
    own = attribute(UnitAttr, optional=True)
    token = None
    mem_semantic = _WEAK
    result_token = result(aa.MemTokenType)
    assembly_format = "attr-dict `:` type($result_token)"

    def verify_op(self) -> None:
        if self.pending.type is not i32 or self.pending.value < 0:
            raise VerifyError("expects a number of groups as i32, of at least 0")


def pipe_of_buffer(buffer: Value) -> Any:
    """The pipe (`async.pipeline.create_pipeline`) whose stages a buffer has; None for a ring without mbarriers."""
    return next((user for user in buffer.users if user.name == CREATE_PIPELINE), None)


def cut_axis(whole: TensorType, part: TensorType) -> int:
    """The dimension in which `part` is smaller than `whole`."""
    return next(axis for axis, (n, size) in enumerate(zip(whole.shape, part.shape)) if n != size)


def _parts(whole: TensorType, part: TensorType) -> int:
    """The number of tiles like `part` that make up `whole`, which is larger in one dimension; 0 where they do not."""
    cut = [(n, size) for n, size in zip(whole.shape, part.shape) if n != size]
    if len(whole.shape) != len(part.shape) or len(cut) != 1 or cut[0][0] % cut[0][1]:
        return 0
    return cut[0][0] // cut[0][1]


class StoreTensorOp(Operation, name="nv_tileas.store_tensor", traits=(MemoryWrite,)):
    """Writes a tile to one stage of a buffer; later reads of the buffer see it.

    With `part` it writes one part of the tile: the tile is cut along the one dimension in which the buffer's tile is
    smaller, into parts of the buffer's extent.
    """

    tensor = operand(TensorType)
    buffer = operand(BufferType)
    stage = operand(integer_like)
    part = attribute(IntegerAttr, optional=True)
    assembly_format = (
        "$tensor `into` $buffer `[` $stage `:` type($stage) `]` attr-dict `:` type($tensor) `,` type($buffer)"
    )

    def verify_op(self) -> None:
        check_stage(self)
        tile, type = self.buffer.type.tile, self.tensor.type
        if _is_own(self, type, self.part):
            return
        if self.part is None:
            if (tile.shape, tile.element_type) != (type.shape, type.element_type):
                raise VerifyError(f"expects a tile like {tile}, got {type}")
        elif tile.element_type is not type.element_type or not 0 <= self.part.value < _parts(type, tile):
            raise VerifyError(f"expects {tile} to be parts along one dimension, got {type}")
        if not isinstance(type.encoding, LinearLayoutAttr):
            raise VerifyError("fails to assign layout")


class CopyOp(Operation, name="nv_tileas.copy", traits=(MemoryRead,)):
    """Reads the tile in one stage of a buffer into registers; with `slice` a slice of it, of the result's extent, along
    the one dimension in which the result is smaller.  A result with the buffer's own layout is not moved: it stands for
    the tile in shared memory, which dots read there."""

    buffer = operand(BufferType)
    stage = operand(integer_like)
    slice = optional_operand(integer_like)
    result = result(TensorType)
    assembly_format = (
        "$buffer `[` $stage `:` type($stage) `]` (`slice` `=` $slice^ `:` type($slice))? attr-dict"
        " `:` type($buffer) `->` type($result)"
    )

    @property
    def axis(self) -> int:
        """The dimension along which a slice is cut."""
        return cut_axis(self.buffer.type.tile, self.result.type)

    def verify_op(self) -> None:
        check_stage(self)
        tile, type = self.buffer.type.tile, self.result.type
        if _is_own(self, type, self.slice):
            return
        if tile.element_type is not type.element_type or self.slice is None and tile.shape != type.shape:
            raise VerifyError(f"expects a tile like {tile}, got {type}")
        if self.slice is not None:
            if self.slice.type is not i32:
                raise VerifyError(f"expects the number of a slice as i32, got {self.slice.type}")
            if not _parts(tile, type):
                raise VerifyError(f"expects a part of {tile} along one dimension, got {type}")
        if isinstance(type.encoding, SharedLayoutAttr):
            if type is not tile:
                raise VerifyError(f"expects {tile}, the type of the buffer's tile, got {type}")
        elif not isinstance(type.encoding, LinearLayoutAttr):
            raise VerifyError("fails to assign layout")
