"""Delays before operations that synchronize warps and agents: waits, arrivals, barriers, copies that are waited for.

A program with sufficient synchronization computes the same result under any delays.  A program that lacks some usually
does so too, since a GPU runs its warps in about the same order each time.  With delays that differ by place, warp and
tile block one launch covers many orders, and every launch has the same delays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.delays import DelayOp
from tileiras.ir import Builder, IntegerAttr, Operation, i32

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

_ON_PIPES = (
    "producer_acquire", "producer_commit", "producer_tail", "consumer_wait", "consumer_release", "produce_one",
    "consume_one",
)  # fmt: skip
_ON_TENSOR_MEMORY = ("commit", "wait", "load", "store", "scale", "release")
DELAYED = frozenset({
    *(names.PIPELINE + name for name in _ON_PIPES),
    *(names.TENSOR_MEMORY + name for name in _ON_TENSOR_MEMORY),
    "nv_tileas.barrier", "nv_tileas.async.tiled_load", "nv_tileas.async.load", "nv_tileas.async.commit_group",
    "nv_tileas.async.wait", "nv_tileas.async.bulk_load", "nv_tileas.async.bulk_store", names.TMA_LOAD, names.TMA_STORE,
    names.TMA_STORE_STAGE, names.TMA_STORE_TAIL, "nv_tileas.async.wait_turn", "nv_tileas.async.end_turn",
    "nv_tileas.async.future_wait", "nv_tileas.store_tensor",
})  # fmt: skip
"""Operations that get a delay before them.  Dots of warpgroups and their commits get none: ptxas takes an instruction
between them for a use of registers in flight."""

_WITH_REGION = tuple(names.PIPELINE + name for name in ("produce_one", "consume_one"))
"""Operations that commit or release a stage at the end of their region, so that it gets a delay there as well."""


class InsertDelays(FunctionPass):
    name = "tileas-insert-delays"
    optional = True
    requires = "PLACED"
    needs = "all that waits, arrives or copies as it will be"
    establishes = "`nv_tileas.delay` before it"
    keeps = "all other operations, and so the results of the function"
    accepts = {"nanoseconds": range(1, 1_000_001)}

    seed: int = 0
    nanoseconds: int = 1000

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        insert_delays(func, self.seed, self.nanoseconds)


def insert_delays(func: aa.FuncOp, seed: int, nanoseconds: int) -> None:
    """Insert delays of up to `nanoseconds` into a function, in place.  The seed of each is a hash of `seed`,
    the function's name and the delay's number."""
    start = _mixed(seed ^ _hash(func.sym_name.value))
    for number, op in enumerate(_places(func)):
        delay = DelayOp(
            nanoseconds=IntegerAttr(nanoseconds, i32),
            seed=IntegerAttr(_signed(_mixed(start + number) | 1), i32),
            location=op.location,
        )
        Builder.before(op).insert(delay)


def _places(func: aa.FuncOp) -> list[Operation]:
    """The operations before which delays stand."""
    places = []
    for op in func.walk():
        areas = tileas.scratch_areas(op)
        # Conversions that join follow each other: all of them store before one barrier.
        if op.name in DELAYED or areas and not areas[0].joins:
            places.append(op)
        if op.name in _WITH_REGION:
            places.append(op.regions[0].block.last)
    return places


_WORD = 0xFFFFFFFF


def _mixed(number: int) -> int:
    """A hash of 32 bits: about half of them change with any bit of `number` (the finalizer of MurmurHash3)."""
    number &= _WORD
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        number = (number ^ number >> shift) * factor & _WORD
    return number ^ number >> 16


def _hash(text: str) -> int:
    """FNV-1a, of 32 bits."""
    result = 0x811C9DC5
    for byte in text.encode("utf-8", "surrogatepass"):  # names of bytecode may hold any bytes
        result = (result ^ byte) * 0x01000193 & _WORD
    return result


def _signed(number: int) -> int:
    return number - (number >> 31 << 32)
