"""Attributes of nv_tileas: layouts and atoms."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Iterable

from tileiras.ir import Attribute, EnumAttr, VerifyError
from tileiras.support import gf2

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

Basis = tuple[int, ...]
"""Coordinates of a tensor element: the image of one bit of a hardware index."""

IN_DIMENSIONS = ("register", "lane", "warp", "block")


def print_bases(bases: Iterable[Basis]) -> str:
    """`[[0, 1], [2, 0]]`."""
    return f"[{', '.join(str(list(basis)) for basis in bases)}]"


def flattened(basis: Basis, shape: tuple[int, ...]) -> int:
    """The row-major index of an element of a tensor whose sizes are powers of two."""
    position = 0
    for at, size in zip(basis, shape):
        position = position * size | at
    return position


class LinearLayoutAttr(Attribute, name="nv_tileas.linear", parameters=IN_DIMENSIONS, asm_alias="layout"):
    """Which element each register of each thread holds, as a linear map over GF(2).

    Bit i of the register number (of the lane, of the warp, of the CTA in its cluster) contributes the coordinates
    `register[i]` (`lane[i]`, ...), combined by exclusive or.  A zero basis means that the bit does not change the
    element: the data is replicated.  The trivial block part is not printed.
    """

    register: tuple[Basis, ...]
    lane: tuple[Basis, ...]
    warp: tuple[Basis, ...]
    block: tuple[Basis, ...]

    def __new__(
        cls,
        register: Iterable[Iterable[int]],
        lane: Iterable[Iterable[int]],
        warp: Iterable[Iterable[int]],
        block: Iterable[Iterable[int]] = (),
    ) -> "LinearLayoutAttr":
        parts = (tuple(tuple(basis) for basis in part) for part in (register, lane, warp, block))
        return cls.intern(tuple(parts))  # type: ignore[return-value]

    def verify_encoding(self, shape: tuple[int, ...]) -> None:
        """Raise VerifyError unless tensors of this shape can have the layout."""
        for size in shape:
            if size < 1 or size & (size - 1):
                raise VerifyError(f"a tensor with a layout has sizes that are powers of two, got {size}")
        for name, part in zip(IN_DIMENSIONS, self.values):
            for basis in part:
                if len(basis) != len(shape):
                    raise VerifyError(f"{name} basis {list(basis)} is not one of rank {len(shape)}")
                if not all(0 <= at < size for at, size in zip(basis, shape)):
                    raise VerifyError(f"{name} basis {list(basis)} lies outside the tensor")
        rank = gf2.rank(flattened(basis, shape) for part in self.values for basis in part)
        if 1 << rank != prod(shape):
            raise VerifyError(f"the layout holds {1 << rank} of {prod(shape)} elements")

    def print_parameters(self, printer: Printer) -> None:
        parts = []
        for name, bases in zip(IN_DIMENSIONS, self.values):
            if bases or name != "block":
                parts.append(f"{name} = {print_bases(bases)}")
        printer.write(f"<{', '.join(parts)}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "LinearLayoutAttr":
        def bases() -> list[list[int]]:
            return parser.parse_comma_separated(
                lambda: parser.parse_comma_separated(parser.parse_integer, "[", "]"), "[", "]"
            )

        result = parser.parse_struct("#nv_tileas.linear", dict.fromkeys(IN_DIMENSIONS, bases))
        return cls(*(result.get(name, ()) for name in IN_DIMENSIONS))


class _KeywordAndInteger(Attribute):
    """An attribute with two parameters, a keyword and an integer: `<ld_global, 4>`."""

    def print_parameters(self, printer: Printer) -> None:
        keyword, integer = (getattr(self, name) for name in self.parameters)
        printer.write(f"<{keyword}, {integer}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> Any:
        parser.parse_punctuation("<")
        keyword = parser.parse_any_keyword()
        parser.parse_punctuation(",")
        integer = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(keyword, integer)


class CopyAtomAttr(_KeywordAndInteger, name="nv_tileas.copy_atom", parameters=("atom", "vector_size")):
    """How data is moved: the atom's name in the target tables, and the number of elements per access of a thread."""

    def verify(self) -> None:
        if self.vector_size < 1 or self.vector_size & self.vector_size - 1:
            raise VerifyError(f"elements per access must be a power of two, got {self.vector_size}", prefix=False)


class MmaAtomAttr(Attribute, name="nv_tileas.mma_atom", parameters=("atom",)):
    """The matrix-multiply atom of the target tables that executes a dot."""

    atom: str

    @property
    def is_of_pair(self) -> bool:
        """Whether two CTAs execute the dot together (`cta_group::2`)."""
        return self.atom.endswith("_pair")

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f'<"{self.atom}">')

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "MmaAtomAttr":
        parser.parse_punctuation("<")
        atom = parser.parse_string()
        parser.parse_punctuation(">")
        return cls(atom)


class ScratchAttr(Attribute, name="nv_tileas.scratch"):
    """An area of scratch memory through which an operation exchanges elements between threads.

    `offset` and `bytes` give its place in the arena; an exchange that needs more proceeds in `rounds`. The stores to an
    area that `joins` the previous one come before that area's barrier, together with its stores.  All threads wait at
    `barrier` between the stores and the loads of a round, and between rounds; with `waits` also before the first store,
    for the loads by earlier users of the memory.  `barrier` and `threads` are as in `nv_tileas.barrier`.
    """

    parameters = ("offset", "bytes", "rounds", "joins", "waits", "barrier", "threads")
    offset: int
    bytes: int
    rounds: int
    joins: bool
    waits: bool
    barrier: int | None
    threads: int | None

    def __new__(
        cls,
        offset: int,
        bytes: int,
        rounds: int = 1,
        joins: bool = False,
        waits: bool = False,
        barrier: int | None = None,
        threads: int | None = None,
    ) -> "ScratchAttr":
        return cls.intern((offset, bytes, rounds, joins, waits, barrier, threads))  # type: ignore[return-value]

    def verify(self) -> None:
        if self.offset < 0 or self.bytes < 1 or self.rounds < 1:
            raise VerifyError("expected an offset of at least 0, and at least one byte and one round", prefix=False)
        if self.joins and self.rounds > 1:
            raise VerifyError("an exchange through scratch memory in rounds cannot join another", prefix=False)
        if (self.threads is not None or self.waits) and self.barrier is None:
            raise VerifyError("expected the number of the barrier to wait at", prefix=False)

    def with_barrier(self, number: int, threads: int | None, waits: bool) -> "ScratchAttr":
        """The same area with its barrier set."""
        return ScratchAttr(self.offset, self.bytes, self.rounds, self.joins, waits, number, threads)

    def print_parameters(self, printer: Printer) -> None:
        parts = [f"offset = {self.offset}", f"bytes = {self.bytes}"]
        if self.rounds > 1:
            parts.append(f"rounds = {self.rounds}")
        parts += [f"{name} = true" for name in ("joins", "waits") if getattr(self, name)]
        parts += [f"{name} = {n}" for name in ("barrier", "threads") if (n := getattr(self, name)) is not None]
        printer.write(f"<{', '.join(parts)}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "ScratchAttr":
        numbers = dict.fromkeys(("offset", "bytes", "rounds", "barrier", "threads"), parser.parse_integer)
        flags = dict.fromkeys(("joins", "waits"), lambda: parser.parse_any_keyword() == "true")
        start = parser.pos
        parameters = parser.parse_struct("#nv_tileas.scratch", {**numbers, **flags})
        for name in ("offset", "bytes"):
            if name not in parameters:
                parser.fail(start, f"#nv_tileas.scratch has no parameter '{name}'")
        return cls(**parameters)


SERIAL, PLAIN, PREFETCH, WARP_SPECIALIZE = "serial", "plain", "prefetch", "warp_specialize"
UNSPECIALIZE, SINGLE_BUFFER, STREAM = "unspecialize", "single_buffer", "stream"
"""The kinds of a loop's schedule: `serial`, operations and loads as written; `plain`, loads run ahead through a ring in
shared memory; `prefetch`, the tiles of the next iteration are loaded into registers; `warp_specialize`, another agent
loads and passes the tiles through pipes; `unspecialize`, as `plain`, with the other operations in stages that overlap
(`nv_tile.aws.stage`); `single_buffer`, each tile is copied into one stage as soon as the dots that read it are
complete; `stream`, each thread copies its own elements ahead, across the iterations of an enclosing loop too."""

LOAD, DOT, STORE, CORRECTION = "load", "dot", "store", "correction"
"""Partitions: operations of the agents that load tiles, issue dots into tensor memory, store tiles, and rescale
accumulators."""


class PartitionAttr(EnumAttr):
    """The agent that executes an operation, instead of the one that computes."""

    name = "nv_tileas.partition"
    cases = {LOAD: 0, DOT: 1, STORE: 2, CORRECTION: 3}


KINDS = (SERIAL, PLAIN, PREFETCH, WARP_SPECIALIZE, UNSPECIALIZE, SINGLE_BUFFER, STREAM)


class LoopScheduleAttr(_KeywordAndInteger, name="nv_tileas.loop_schedule", parameters=("kind", "stages")):
    """How a loop is scheduled, and the number of stages (tiles held at a time) of each load that runs ahead, unless
    `nv_tileas.stages` of the load gives another number."""

    kind: str
    stages: int

    def verify(self) -> None:
        if self.kind not in KINDS:
            raise VerifyError(f"expected {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {self.kind}", prefix=False)
        one, several = self.kind in (SERIAL, SINGLE_BUFFER), self.kind not in (SERIAL, SINGLE_BUFFER, WARP_SPECIALIZE)
        if self.stages < 1 + several or one and self.stages > 1:
            raise VerifyError(f"{self.stages} stages are invalid for a {self.kind} schedule", prefix=False)
