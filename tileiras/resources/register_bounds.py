"""Register bounds per thread, which limit the CTAs of an SM: the registers that ptxas takes if available, the minimum
without spills, and the number that a pass may assume before scheduling.

ptxas takes any number up to a bound, and spills below a number of its own; only the estimate and the tiles are known
here.  The factors were fitted to its registers for the examples and the kernels that the tests write with the front end
(`python -m bench registers --bounds`; docs/resources.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tileiras.analysis.dots_in_flight import is_asynchronous, is_of_tensor_memory
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nvvm.tensor_memory import MOST_WORDS
from tileiras.ir import Operation, Value
from tileiras.targets import known_mma_atom, registers_per_thread

from .expected_registers import WEIGHTS, Place, expected_registers, places
from .limits import LEAST_RESERVE, threads_of
from .live_values import goes_by_element, words_of_type
from .registers import LiveRegisters, words

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

ENOUGH = 1.04
"""Factor of the expected registers: a bound above it adds no spills."""

ALONE = 1.25
"""Factor of the expected registers: without a bound, ptxas takes fewer."""

TIGHT = 0.8
"""Factor of the expected registers, less the dispensable ones: with fewer ptxas spills."""

DISPENSABLE = ("unary_words", "combined_words", "unrolled_loops", "unrolled_loads")
"""Terms of registers that ptxas does without where it is short: it unrolls no loop then, and computes results in the
place of their operands."""

BESIDE_TILES = 12
"""Registers beside tiles below which ptxas spills: where it is short of them, it computes addresses and masks anew for
each access.  Beside dots these are `LEAST_RESERVE`, with the fragments that are read a step at a time."""

BESIDE_ONE_FRAGMENT = 28
"""Registers beside the fragment of an accumulator of one instruction, which cannot be spilled: ptxas
13.5 refuses (C7602) fewer than 26 for wgmma, and than 18 for tcgen05.ld."""


LEAST_OF_WIDE_F64 = 64
"""The bound below which ptxas 13.5 refuses `mma.sync.m16n8k4`, `k8` and `k16` of f64, regardless of their registers."""


def enough_registers(func: aa.FuncOp) -> int:
    """Registers of a thread with which the bound causes no spills."""
    return max(least_beside_tiles(func), math.ceil(ENOUGH * expected_registers(func, 1)))


def registers_alone(func: aa.FuncOp) -> int:
    """Registers of a thread that ptxas takes at most where it chooses their number."""
    return math.ceil(ALONE * expected_registers(func, 1))


def least_registers(func: aa.FuncOp) -> int:
    """Registers of a thread below which ptxas spills, as far as a thread can have them."""
    most = max((place.registers - _dispensable(place) for place in places(func)), default=0)
    return max(least_beside_tiles(func), math.floor(TIGHT * min(most, expected_registers(func, 1))))


def _dispensable(place: Place) -> float:
    return math.fsum(WEIGHTS[name] * place.terms.get(name, 0) for name in DISPENSABLE)


def least_beside_tiles(func: aa.FuncOp, count: Callable[[Value], int] = words) -> int:
    """The same from tiles alone, which are known before scheduling; `count(value)` is the registers of one."""
    live = LiveRegisters(lambda value: 0 if goes_by_element(value) else count(value))
    ops = list(func.walk())
    beside = LEAST_RESERVE if any(isinstance(op, tileas.DOTS) for op in ops) else BESIDE_TILES
    registers = max(live.of_block(func.body.blocks[0]) + beside, least_of_fragments(ops))
    if any(map(_is_wide_f64, ops)):
        registers = max(registers, LEAST_OF_WIDE_F64)
    return min(registers, registers_per_thread(threads_of(func)))


def least_of_fragments(ops: Iterable[Operation]) -> int:
    """Registers below which ptxas refuses an instruction that takes a whole fragment of an accumulator."""
    fragments = [words(value) for op in ops if _takes_whole_fragment(op) for value in op.results]
    return max(fragments, default=0) + BESIDE_ONE_FRAGMENT


def least_of_reads(ops: Iterable[Operation]) -> int:
    """The same for agents, where an accumulator that stays in tensor memory is read after its loop."""
    ops = list(ops)
    reads = (words_of_type(op.results[0].type) for op in ops if is_of_tensor_memory(op))
    return max(least_of_fragments(ops), min(max(reads, default=0), MOST_WORDS) + BESIDE_ONE_FRAGMENT)


def _is_wide_f64(op: Operation) -> bool:
    """Whether warps multiply 16 rows of f64 in one instruction."""
    atom = known_mma_atom(op.atom.atom) if isinstance(op, tileas.DOTS) else None
    return atom is not None and atom.a_type == "f64" and atom.shape[0] == 16


def _takes_whole_fragment(op: Operation) -> bool:
    """Whether one instruction takes a fragment of an accumulator, before or after `tileas-materialize-async`."""
    return is_asynchronous(op) or op.name in (names.ASYNC_DOT, names.TENSOR_LOAD)
