"""Estimate of the registers of a thread that ptxas allocates for a kernel.

The estimate is the largest sum of terms over the places of a function of nv_tileas.  The terms of a place are the
values that are live there (`live_values.py`), the operation that runs there (`operation_terms.py`), accesses in flight
beside it, and the registers that the loops around it keep: addresses of copies and loads, and iterations that ptxas
unrolls.  `WEIGHTS` has the registers for a unit of each term.

It is neither an upper nor a lower bound, and no pass rejects a plan by it (docs/resources.md explains why).  The lower
bound is `registers.tile_registers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import fsum
from typing import Any

from tileiras.analysis.copied_loads import LOADS
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.llvm.layout import SHARED
from tileiras.ir import Block, Operation, Value, element_type_of
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import registers_per_thread

from .limits import threads_of
from .live_values import LiveValues, unfolded
from .operation_terms import MOST_ADDRESSES, Terms, own_terms

CALL_REGISTERS = 24
"""Registers of a kernel that calls a function of the driver (`vprintf`, `malloc`): the reserve of the ABI."""

FEWEST = 8
"""Registers of the smallest kernels, and the allocation unit of an SM."""

UNROLLED_TRIPS = 8
"""The largest known trip count, about, of a loop that ptxas unrolls."""

UNROLLED_BODY = 10
"""Maximum operations of a loop that ptxas unrolls four times without a known trip count."""

UNROLLED_WORDS = 2
"""Maximum registers for the loads of an iteration of such a loop."""

REMATERIALIZED_TOGETHER = 16
"""Registers of all rematerializable tiles together, at most."""

COUNTERS_TOGETHER = 2
"""Registers of loop-carried scalars, at most: the others are in uniform registers."""

WEIGHTS: dict[str, float] = {
    # In every kernel: the thread's number, ptxas's stack pointer, an address and a condition under construction.
    "base": 6.75,
    # Live values, in registers.
    "words": 1.0,
    "packed": 1.0,
    "unpacked": 1.0,
    "narrow_loads": 0.75,  # packing begins while the last are in flight
    "pointers": 0.5,  # 64-bit numbers; LLVM keeps 32-bit offsets
    "rematerialized": 0.45,
    "broadcast_results": 0.65,
    "scalars": 0.1,
    "counters": 1.9,
    # Elementwise operations, for each register of the result.
    "unary_words": 0.8,
    "combined_words": 0.45,
    "function": 1.0,
    # Accesses: the address, rows along strides that the kernel is given, and those in flight beside them.
    "load": 0.9,
    "load_pointers": 0.7,
    "load_rows": 0.4,
    "load_strides": 0.7,
    "load_gathered": 0.95,
    "store_rows": 2.15,  # an address and a condition each, and all are stored behind one branch
    "store_strides": 0.6,
    "store_run": 2.15,
    "copy_rows": 1.8,
    "copy_strides": 4.0,  # a 64-bit stride and the distance of a row
    "atomic": 1.9,
    "atomic_pointers": 1.3,
    "atomic_run": 2.85,
    # Kept by loops: addresses that move from iteration to iteration, ring positions, iterations that ptxas unrolls.
    "loop_load": 3.05,
    "loop_load_pointers": 1.05,
    "loop_load_gathered": 4.5,
    "loop_store": 1.5,
    "loop_copy": 0.8,
    "buffers_read": 2.6,
    "unrolled_loops": 8.65,
    "unrolled_loads": 2.5,
    # Dots: addresses of ldmatrix and fragments of two steps, beside the accumulators.
    "dot": 10.35,
    "fragments_ahead": 0.58,  # of later steps along K, which are read before an earlier one is multiplied
    "fragments": 0.9,
    "async_dot": 9.6,
    "further_dots": 9.8,
    "scales": 12.45,
    "run_sums": 0.7,
    "fma_operands": 4.15,
    # Exchanges between threads.
    "reduce": 1.75,
    "scan_words": 1.7,
    "exchange_words": 0.85,
    "shuffle": 3.3,
    "shuffle_words": 0.85,
}
"""Registers for a unit of each term, fitted to the registers of ptxas 13.0 for the kernels of the examples and of the
tests of the front end on sm_80, sm_90, sm_100 and sm_120, and of 13.5 for those of the front end's samples (`python -m
bench registers`)."""

LOOPS = (scf.ForOp, scf.WhileOp)
_COMBINERS = (tileas.ReduceOp, tileas.ScanOp)
_ADDRESSES = frozenset(name for name in WEIGHTS if name.endswith(("_rows", "_pointers", "_gathered")))
_IN_A_RUN = {"load": "load_run", "store": "store_run", "atomic_view": "atomic_run"}


class Place(NamedTuple):
    """An operation and the terms of the place before or after it."""

    op: Operation
    terms: Terms

    @property
    def registers(self) -> float:
        # An exact sum, independent of the order of a set of values.
        return fsum(WEIGHTS.get(name, 0) * amount for name, amount in self.terms.items())


def expected_registers(func: Any, ctas: int | None = None) -> int:
    """Expected registers of a thread for a function of nv_tileas, with layouts or later, if an SM must hold as many
    CTAs as the kernel requests, or `ctas`."""
    result = round(max((place.registers for place in places(func)), default=0))
    if any(map(_calls, func.walk())):
        result = max(result, CALL_REGISTERS)
    ctas = ctas or func.kernel_spec.occupancy or getattr(func.attributes.get(tileas.MIN_CTAS), "value", 1)
    return min(max(result, FEWEST), registers_per_thread(threads_of(func), ctas))


def places(func: Any) -> Iterator[Place]:
    """The places of a function, with their terms."""
    return _Places().of_block(func.body.blocks[0], set(), {"base": 1})


def _calls(op: Operation) -> bool:
    if isinstance(op, tileas.AllocaOp):
        return element_type_of(op.result.type).address_space != SHARED
    return isinstance(op, (tileas.PrintOp, tileas.AssertOp))


class _Live:
    """The live values at a place, and the sums of their terms, which `through` and later changes determine."""

    def __init__(self, values: LiveValues, through: Iterable[Value]) -> None:
        self._values = values
        self._counts: dict[Value, int] = {}
        """Value -> how many live values are in its registers."""
        self.sums: Terms = {}
        for value in through:
            self.add(value)

    def add(self, value: Value) -> None:
        value = unfolded(value)
        count = self._counts[value] = self._counts.get(value, 0) + 1
        if count == 1 and (term := self._values.term(value)) is not None:
            name, amount = term
            self.sums[name] = self.sums.get(name, 0) + amount

    def remove(self, value: Value) -> None:
        value = unfolded(value)
        count = self._counts[value] = self._counts[value] - 1
        if not count and (term := self._values.term(value)) is not None:
            name, amount = term
            self.sums[name] -= amount


class _Places:
    def __init__(self) -> None:
        self._values = LiveValues()
        self._own: dict[Operation, Terms] = {}

    def of_block(self, block: Block, through: set[Value], around: Terms) -> Iterator[Place]:
        """The places of a block and of the blocks in it; `through` is live after it, `around` has the terms of outer
        loops."""
        operations = list(block.operations)
        last: dict[Value, Operation] = {}
        uses: dict[Operation, dict[Value, None]] = {}
        for op in operations:
            uses[op] = self._uses(op)
            last.update(dict.fromkeys(uses[op], op))
        live = {value for value in block.arguments if value in last}
        sums = _Live(self._values, through | live)
        for run in _runs(operations):
            beside = _add(around, self._of_run(run))
            for op in run:
                terms = _add(beside, self._terms(op))
                ending = {v for v in uses[op] if last[v] is op and v.parent_block is block}
                if op.regions and not isinstance(op, _COMBINERS):
                    inside = {v for inner in op.walk() if inner is not op for v in self._operands(inner, op)}
                    result = _add(around, self._of_loop(op)) if isinstance(op, LOOPS) else around
                    for region in op.regions:
                        for inner_block in region.blocks:
                            yield from self.of_block(inner_block, through | live - (ending - inside), result)
                yield _place(op, sums, terms)
                for value in ending & live:
                    sums.remove(value)
                live -= ending
                for value in op.results:
                    sums.add(value)
                yield _place(op, sums, terms)
                for value in op.results:
                    if value in last:
                        live.add(value)
                    else:
                        sums.remove(value)

    def _terms(self, op: Operation) -> Terms:
        """The terms of one operation; they must not be changed."""
        result = self._own.get(op)
        if result is None:
            result = self._own[op] = own_terms(op, self._values)
        return result

    def _operands(self, op: Operation, around: Operation) -> Iterable[Value]:
        """The operands of `op`, which is `around` or inside it.  In a loop, tiles are recomputed in every iteration, so
        the values that they are computed from stay live through all iterations."""
        if op is around or not isinstance(around, LOOPS):
            return op.operands
        return [part for value in op.operands for part in self._values.made_of(value)]

    def _uses(self, op: Operation) -> dict[Value, None]:
        if not op.regions:
            return dict.fromkeys(op.operands)
        return {value: None for inner in op.walk() for value in self._operands(inner, op)}

    def _of_run(self, run: list[Any]) -> Terms:
        """Accesses of a run of operations without control flow: ptxas has them in flight together."""
        result: Terms = {}
        addressed: set[tuple[Value, ...]] = set()
        for op in run:
            kind = next((_IN_A_RUN[name] for name in self._terms(op) if name in _IN_A_RUN), None)
            if kind is None:
                continue
            place = (op.view, *op.coords) if hasattr(op, "view") else (op.pointer,)
            if place not in addressed:  # an address serves all accesses of its place
                addressed.add(place)
                result[kind] = result.get(kind, 0) + 1
        return result

    def _of_loop(self, loop: Operation) -> Terms:
        """Terms of a loop for its own accesses, and for iterations that ptxas unrolls."""
        body = list(_own_operations(loop))
        result: Terms = {}
        for op in body:
            for name, amount in self._terms(op).items():
                if name.partition("_")[0] in ("load", "store", "copy"):
                    result = _add(result, {f"loop_{name}": amount})
        result["buffers_read"] = sum(isinstance(op, tileas.CopyOp) for op in body)
        result["further_dots"] = max(0, sum(isinstance(op, tileas.DOTS) for op in body) - 1)
        if _few_trips(loop):
            result["unrolled_loops"] = 1
        loaded = sum(self._values.words(op.data) for op in body if isinstance(op, LOADS))
        is_small = len(body) <= UNROLLED_BODY and not any(
            isinstance(op, (*LOOPS, *tileas.DOTS, tileas.AsyncTiledLoadOp)) for op in body
        )
        if is_small and loaded <= UNROLLED_WORDS:
            result["unrolled_loads"] = 3 * loaded
        return result


def _place(op: Operation, live: _Live, terms: Terms) -> Place:
    result = dict(terms)
    for name, amount in live.sums.items():
        result[name] = result.get(name, 0) + amount
    for name, most in (("rematerialized", REMATERIALIZED_TOGETHER), ("counters", COUNTERS_TOGETHER)):
        if name in result:
            result[name] = min(result[name], most)
    for name in _ADDRESSES.intersection(result):
        result[name] = min(result[name], MOST_ADDRESSES)
    return Place(op, result)


def _add(terms: Terms, more: Terms) -> Terms:
    result = dict(terms)
    for name, amount in more.items():
        result[name] = result.get(name, 0) + amount
    return result


def _runs(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Operations up to the next one with blocks of its own, or that waits for copies."""
    run: list[Operation] = []
    for op in operations:
        run.append(op)
        if op.regions and not isinstance(op, _COMBINERS) or isinstance(op, tileas.AsyncWaitOp):
            yield run
            run = []
    yield run


def _own_operations(loop: Operation) -> Iterator[Operation]:
    """The operations of a loop and of its conditionals, without those of loops in it."""
    for region in loop.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op
                if op.regions and not isinstance(op, LOOPS):
                    yield from _own_operations(op)


def _few_trips(loop: Any) -> bool:
    if not isinstance(loop, scf.ForOp):
        return False
    bounds = [value.defining_op for value in (loop.lower_bound, loop.upper_bound, loop.step)]
    if not all(isinstance(bound, arith.ConstantOp) for bound in bounds):
        return False
    first, end, step = (bound.value.value for bound in bounds)
    return 0 < (end - first) // max(1, step) <= UNROLLED_TRIPS
