"""One launch: the interpreter with intervals, the emulator under several orders, and the comparison of memory."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import itertools
import math
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tileiras.diagnostics import Diagnostic
from tileiras.ir import FloatType, Operation
from tileiras.sim import emulate, interpret
from tileiras.sim.emulator.errors import DEADLOCK, EmulationError, UndescribedParameters, UnsupportedInstruction
from tileiras.sim.emulator.source import source_positions
from tileiras.sim.errors import ArgumentMismatch
from tileiras.sim.interpreter.machine import Deadlock, InterpreterError, Machine, Order
from tileiras.sim.interpreter.rounding import FLOAT_DTYPES
from tileiras.sim.interpreter.values import width_of
from tileiras.sim.memory import Allocation, _raw_bytes, _root
from tileiras.targets import TARGETS

from .boundaries import Boundaries
from .bounds import Bounds, is_anything, is_point, unit
from .coverage import Coverage, place
from .facts import Facts
from .fitting import Fitted
from .roundings import unasked
from .tracking import TrackedMemory, TrackingMachine
from .verdict import FAULT, INCONCLUSIVE, RIGHT, TIME_IS_UP, WRONG, Finding

STEP_LIMIT = 3_000_000
"""Limit on instructions of warps; a launch that exceeds it is taken for a deadlock."""
LEADER = 5
"""The lane that `elect.sync` names in runs in a random order: code must be right for each."""


FillHidden = Callable[[Sequence[bytes], Sequence[int]], list[bytes]]


@dataclass(frozen=True)
class Image:
    """The code under judgement: PTX and the launch description of its kernels, if there is one."""

    ptx: str
    entry: str
    metadata: Mapping[str, Any] | None = None
    hidden: FillHidden | None = None
    """Fills hidden parameters in the place of a description."""
    waived: tuple[str, ...] = ()
    """Rules of the PTX ISA that the image may violate (`tileiras.sim.emulator.rules`)."""
    run: Callable[[Sequence[int], Sequence[Any]], str] | None = None
    """Executes a launch of code for this machine, which has no PTX; returns the assertion that failed, or nothing."""
    opinion: Callable[[], Image | None] | None = None
    """Makes code for this machine of the same source, which large launches are held against as well."""


def sums_narrowly(gpu_name: str) -> bool:
    """Whether a GPU sums f8 products in fewer bits than f32 has."""
    return gpu_name in TARGETS and TARGETS[gpu_name].has("narrow_f8_sums")


def target_of(ptx: str) -> str:
    """The GPU that PTX names."""
    match = re.search(r"^\s*\.target\s+(sm_\d+)", ptx, re.MULTILINE)
    return match[1] if match is not None else "an unknown GPU"


@dataclass
class Judged:
    """How a launch ended."""

    status: str
    findings: list[Finding]
    worst_ulps: float = 0.0
    undefined: int = 0
    unbounded: int = 0
    seeds: tuple[int | None, ...] = ()
    """The orders of warps that the code ran in."""


@dataclass
class Reference:
    """The interpreter's results of a launch."""

    arguments: list[Any]
    """The results: arguments, and the arrays behind tables."""
    undefined: dict[int, np.ndarray]
    memory: TrackedMemory
    machine: TrackingMachine
    allocations: list[Allocation | None]
    """Of each of the results."""
    names: list[str]

    def bounds(self, position: int, itemsize: int) -> tuple[Bounds, np.ndarray] | None:
        """The intervals of an argument's elements, and which of them have one."""
        allocation = self.allocations[position]
        shadow = self.memory.shadows.get(allocation.address) if allocation is not None else None
        if shadow is None or not shadow.active.any():
            return None
        count = self.arguments[position].size
        if shadow.itemsize == itemsize:
            return Bounds(shadow.low[:count], shadow.high[:count]), shadow.active[:count]
        touched = np.repeat(shadow.active, shadow.itemsize)[: count * itemsize].reshape(count, itemsize).any(-1)
        return Bounds(np.full(count, -np.inf), np.full(count, np.inf)), touched


def interpreted(
    module: Operation, entry: str, launch: Fitted, coverage: Coverage, options: Mapping[str, Any],
    order: Order | None = None, narrow_f8: bool = False,
) -> Reference:  # fmt: skip
    """Run the interpreter.  Raises InterpreterError for an error of the program."""
    memory, arguments = TrackedMemory(), launch.copies()
    machines: list[TrackingMachine] = []

    def machine(*positional: Any) -> Machine:
        machines.append(TrackingMachine(*positional, coverage=coverage, approx=bool(options.get("approx")),
                                    ftz=bool(options.get("ftz")), narrow_f8=narrow_f8, order=order))  # fmt: skip
        return machines[0]

    behind = [each.array for each in launch.behind]
    with launch.reachable():
        undefined = interpret(
            module, entry, launch.grid, arguments, memory=memory, output=io.StringIO(), machine_type=machine,
            behind=behind,
        )
        owners = [_root(each) if isinstance(each, np.ndarray) else None for each in (*arguments, *behind)]
        allocations = [None if owner is None else memory._find_owner(owner) for owner in owners]
    names = [*(f"argument {number}" for number in range(len(arguments))), *(each.name for each in launch.behind)]
    return Reference(launch.results(arguments), undefined, memory, machines[0], allocations, names)


_MEETINGS = re.compile(
    r"^\s+(?:@!?%p\d+\s+)?(?:mbarrier|atom|red|elect|bar(?:rier)?\.(?!warp\.sync|(?:cta\.)?sync(?:\.aligned)?\s+0;)|cp\.async\.bulk"
    r"|(?:ld|st)\.(?:acquire|release|relaxed|volatile|mmio)|wgmma|tcgen05|griddepcontrol|setmaxnreg|clusterlaunch)",
    re.MULTILINE,
)  # fmt: skip
"""Statements whose effect may depend on the order of warps, or that wait for something else than all threads."""


def orders(ptx: str, number: int, is_edge: bool, seeds: Sequence[int | None]) -> Sequence[int | None]:
    """The orders of warps in which a launch runs.

    Where all threads meet at barriers and communicate by nothing else, happens-before is the same in every order: a
    launch without a race in lock step has one result.  The first launch runs in each order nevertheless.
    """
    return seeds[:1] if is_edge or number and _MEETINGS.search(ptx) is None else seeds


def judge(
    module: Operation, facts: Facts, image: Image, launch: Fitted, number: int, seeds: Sequence[int | None],
    coverage: Coverage, options: Mapping[str, Any], deadline: float = math.inf,
    boundaries: Boundaries | None = None,
) -> Judged:  # fmt: skip
    """The launch under each order of warps."""
    try:
        narrow = sums_narrowly(target_of(image.ptx))
        reference = interpreted(module, image.entry, launch, coverage, options, narrow_f8=narrow)
    except InterpreterError as error:
        return Judged(FAULT, [_fault(error.diagnostic, number)])
    again = functools.partial(interpreted, module, image.entry, launch, coverage, options, narrow_f8=narrow)
    judged = hold(facts, image, launch, number, seeds, reference, again, deadline, boundaries)
    if judged.status != RIGHT or image.opinion is None or facts.synchronises or _bytes(launch) < LARGE:
        return judged
    opinion = image.opinion()
    if opinion is not None:
        other = hold(facts, opinion, launch, number, seeds, reference, again)
        if other.status == WRONG:
            finding = other.findings[-1]
            message = f"compiled for the processor, {finding.message}"
            return _ended(judged, WRONG, dataclasses.replace(finding, message=message))
    return judged


LARGE = 1 << 16
"""Bytes of arrays from which on a launch is held against code for this machine."""


def _bytes(launch: Fitted) -> int:
    return sum(value.nbytes for value in launch.arguments if isinstance(value, np.ndarray))


def hold(
    facts: Facts, image: Image, launch: Fitted, number: int, seeds: Sequence[int | None], reference: Reference,
    again: Callable[..., Reference], deadline: float = math.inf, boundaries: Boundaries | None = None,
) -> Judged:  # fmt: skip
    """Compare an image with the interpreter's results of a launch, under each order of warps.

    Ends at the first order that is wrong; after the deadline no second order begins.  The results serve any number of
    images.  `boundaries` learns how far comparisons are from their bounds.
    """
    undefined = sum(int(where.sum()) for where in reference.undefined.values())
    judged = Judged(RIGHT, _notes(reference, number), 0.0, undefined, _unbounded(reference))
    if image.run is not None:
        if launch.memory is not None:
            message = "tables hold addresses of the simulator, which code of this machine cannot follow"
            return _ended(judged, INCONCLUSIVE, Finding("unjudged", message, "", number))
        arguments = launch.copies()
        failed = image.run(launch.grid, arguments)
        if failed:
            return _ended(judged, WRONG, Finding("value", failed, "", number))
        _compare(judged, launch.elements(facts), reference, launch.results(arguments), number, again)
        return judged
    for seed in seeds:
        if judged.seeds and time.monotonic() > deadline:
            message = f"{TIME_IS_UP}: further orders of warps were not run"
            judged.findings.append(Finding("unjudged", message, "", number))
            break
        judged.seeds += (seed,)
        arguments = launch.copies()
        learns = boundaries is not None and seed is None
        try:
            with launch.reachable():
                result = emulate(
                    image.ptx, image.entry, launch.grid, arguments, metadata=image.metadata, seed=seed,
                    step_limit=STEP_LIMIT, leader=0 if seed is None else LEADER, hidden=image.hidden,
                    waive=image.waived, compared=boundaries.compared if learns else None, ahead=_ahead(number, seed),
                    farther=bool(number % 2),
                )  # fmt: skip
        except (UnsupportedInstruction, UndescribedParameters) as error:
            return _ended(judged, INCONCLUSIVE, Finding("unjudged", error.message, "", number, error.line))
        except EmulationError as error:
            if error.message.startswith(DEADLOCK) and (fault := _waits(reference, again, number)) is not None:
                return _ended(judged, FAULT, fault)
            refused = _refused(image, error, number)
            races = error.message.startswith("race on") and error.address is not None
            if races and reference.memory.conflicts_at(error.address):
                return _ended(judged, FAULT, dataclasses.replace(refused, kind="program"))
            return _ended(judged, WRONG, refused)
        except ArgumentMismatch as error:
            return _ended(judged, INCONCLUSIVE, Finding("unjudged", str(error), "", number))
        if learns:
            boundaries.end(launch.plan.numbers)
        if not result.searched_races:
            judged.findings.append(Finding("unjudged", "the search for races did not reach the end", "", number))
        elements = launch.elements(facts)
        if not _compare(judged, elements, reference, launch.results(arguments), number, again):
            break
    return judged


def _waits(reference: Reference, again: Callable[..., Reference], number: int) -> Finding | None:
    """The program's own deadlock, in an order of its tile blocks that takes turns."""
    count = int(np.prod(reference.machine.grid))
    for seed in range(MOST_TURNS) if count > 1 and reference.memory.order.synchronises else ():
        try:
            again(order=Order(range(count), seed, takes_turns=True))
        except Deadlock as error:
            return _fault(error.diagnostic, number)
        except InterpreterError:
            continue
    return None


def _ahead(number: int, seed: int | None) -> int:
    """The order of every other launch: agents of one kind run as far ahead of the others as their barriers permit."""
    return 0 if seed is None or not number % 2 else 1 - 2 * (seed % 2)


def rounded_otherwise(module: Operation, image: Image, approx: bool = False) -> Finding | None:
    """A finding on code with roundings that the program does not specify, although its values are allowed."""
    alien = unasked(module, image.ptx, approx)
    if alien is None:
        return None
    error = EmulationError("the program asks for no operation that is rounded so", line=alien[0], text=alien[1])
    return dataclasses.replace(_refused(image, error, 0), launch=None)


def _unbounded(reference: Reference) -> int:
    shadows = reference.memory.shadows.values()
    return sum(int((each.active & is_anything(Bounds(each.low, each.high))).sum()) for each in shadows)


def _ended(judged: Judged, status: str, finding: Finding) -> Judged:
    judged.status = status
    judged.findings.append(finding)
    return judged


def _fault(diagnostic: Diagnostic, number: int) -> Finding:
    position = diagnostic.location.resolve() if diagnostic.location is not None else None
    where = "" if position is None else f"{position.filename}:{position.line}:{position.column}"
    return Finding("program", diagnostic.message, where, number)


def _refused(image: Image, error: EmulationError, number: int) -> Finding:
    places = source_positions(image.ptx, error.line or 0)
    where = ""
    if places:
        file, line, column = places[0]
        where = f"{file}:{line}:{column + file.endswith('.py')}"  # columns of Python's syntax trees count from 0
    at = f" at `{error.text}`" if error.text else ""
    return Finding("emulation", f"{error.message}{at}", where, number, error.line)


def _notes(reference: Reference, number: int) -> list[Finding]:
    machine, notes = reference.machine, []
    for name in sorted(machine.unruled):
        notes.append(Finding("no-rule", f"'{name}' has no bound of error: its dependent values are unbounded", ""))
    for op in sorted(machine.unordered, key=place):
        message = f"'{op.name}' has another result in another order of combining, which is not specified"
        notes.append(Finding("undefined", message, place(op), number))
    if machine.unsteady is not None:
        message = "goes one way or another by a value that is not exact: differences behind it are not judged"
        notes.append(Finding("unjudged", f"'{machine.unsteady.name}' {message}", place(machine.unsteady), number))
    for position, where in reference.undefined.items():
        operation = _writer(reference, position, int(np.flatnonzero(where.reshape(-1))[0]))
        message = f"{int(where.sum())} elements of {reference.names[position]} are undefined by the specification"
        notes.append(Finding("undefined", message, place(operation) if operation is not None else "", number))
    return notes


def _writer(reference: Reference, position: int, element: int) -> Operation | None:
    allocation, size = reference.allocations[position], reference.arguments[position].dtype.itemsize
    return None if allocation is None else reference.memory.writer_of(allocation, element * size)


# -- comparison ------------------------------------------------------------------------------------------------------


def _compare(
    judged: Judged, elements: Iterable[tuple[int, Any]], reference: Reference, results: Sequence[Any], number: int,
    again: Callable[..., Reference],
) -> bool:  # fmt: skip
    """Whether the source program allows the memory contents that the code produced; `elements` are the types of the
    arrays by their place among the results."""
    for position, element in elements:
        got, correct = results[position], reference.arguments[position]
        wrong, ulps, error = differences(element, got, correct, reference, position)
        judged.worst_ulps = max(judged.worst_ulps, ulps)
        if wrong.any() and reference.machine.is_ordered():
            varying = varies(reference, again, position, got)
            wrong = wrong & ~varying.explained
            is_rounded = varying.differing.any() and not varying.is_whole and got.dtype.kind not in "iu"
            if wrong.any() and (is_rounded or reference.machine.updates.interleave):
                # Rounded sums differ under few orders: a value that no tried order gives may still be right.
                name = reference.names[position]
                message = f"{name} depends on the order of atomic operations, and not all orders were tried"
                judged.findings.append(Finding("unjudged", message, "", number))
                judged.status = INCONCLUSIVE
                return False
        if not wrong.any():
            continue
        allocation = reference.allocations[position]
        if allocation is not None:
            determined = ~reference.memory.order.races(allocation, correct.dtype.itemsize)[: wrong.size]
            if not (wrong.reshape(-1) & determined).any():
                first = int(np.flatnonzero(wrong)[0])
                message = f"race on element {first} of {reference.names[position]}: the program orders no two accesses"
                operation = _writer(reference, position, first)
                judged.findings.append(Finding("program", message, place(operation) if operation else "", number))
                judged.status = FAULT
                return False
            wrong &= determined.reshape(wrong.shape)
        if reference.machine.unsteady is not None:
            judged.status = INCONCLUSIVE
            return False
        first = int(np.flatnonzero(wrong)[0])
        operation = _writer(reference, position, first)
        remark = "" if operation is not None else ", which the program does not store"
        message = (
            f"{reference.names[position]} differs in {int(wrong.sum())} of {wrong.size} elements; element"
            f" {first}{remark} is {got.reshape(-1)[first]}, the program's meaning is"
            f" {correct.reshape(-1)[first]}{error(first)}"
        )
        judged.findings.append(Finding("value", message, place(operation) if operation else "", number))
        judged.status = WRONG
        return False
    return True


MOST_TURNS = 8
"""Orders in which tile blocks take turns, that are tried for a deadlock of the program."""
MOST_ORDERS = 24
"""Orders that are tried: all of up to four tile blocks."""


def _orders(machine: TrackingMachine) -> tuple[list[Order], bool]:
    """Orders of atomic operations, and whether these are all orders."""
    count = int(np.prod(machine.grid))
    if math.factorial(count) <= MOST_ORDERS and not machine.repeats_places:
        return [Order(blocks, 0) for blocks in itertools.permutations(range(count))], not machine.updates.interleave
    draw = random.Random(count)
    return [Order(draw.sample(range(count), count), seed) for seed in range(MOST_ORDERS)], False


class Varying(NamedTuple):
    """Elements whose value depends on the order of atomic operations, among the tried orders; those of them that an
    order explains; whether all orders were tried."""

    differing: np.ndarray
    explained: np.ndarray
    is_whole: bool


def varies(reference: Reference, again: Callable[..., Reference], position: int, got: np.ndarray) -> Varying:
    """Compare the elements of an array under further orders.

    An element that differs is explained: a float's interval is that of one order, and there may be further orders.
    If all were tried, an integer has to have its value under one of them.  Orders in which the program has an error,
    as a number from memory that an atomic operation has changed before, are left out.
    """
    orders, is_whole = _orders(reference.machine)
    first = _bits(reference.arguments[position])
    results = [first]
    for order in orders:
        with contextlib.suppress(InterpreterError):
            other = again(order=order)  # whose arrays live as long as its memory
            results.append(_bits(other.arguments[position]).copy())
    others = np.array(results)
    differing = (others != first).any(0)
    seen = (others == _bits(got)).any(0) if is_whole and got.dtype.kind in "iu" else True
    return Varying(differing, differing & seen, is_whole)


def _bits(array: np.ndarray) -> np.ndarray:
    return _raw_bytes(np.ascontiguousarray(array).reshape(-1))[0].view(f"u{array.dtype.itemsize}")


def differences(
    element: Any, got: np.ndarray, correct: np.ndarray, reference: Reference, position: int
) -> tuple[np.ndarray, float, Callable[[int], str]]:
    """The invalid elements, the worst error in units in the last place, and a function from an element to the text of
    its bound."""
    flat, right = got.reshape(-1), correct.reshape(-1)
    wrong = _bits(flat) != _bits(right)
    is_float = isinstance(element, FloatType) and width_of(element) > 4 and element.keyword in FLOAT_DTYPES
    ulps = 0.0
    intervals = reference.bounds(position, got.dtype.itemsize)
    with np.errstate(all="ignore"):
        wide, exact = flat.astype(np.float64), right.astype(np.float64)
        if is_float:
            wrong &= ~(np.isnan(wide) & np.isnan(exact))
        if intervals is not None:
            bounds, active = intervals
            allowed = (bounds.low <= wide) & (wide <= bounds.high) | is_anything(bounds)
            wrong &= ~(active & allowed)
        undefined = reference.undefined.get(position)
        if undefined is not None:
            wrong &= ~undefined.reshape(-1)
        if is_float:
            off = np.abs(wide - exact) / unit(exact, element.keyword)
            countable = np.isfinite(off) & ~wrong
            if undefined is not None:
                countable &= ~undefined.reshape(-1)
            if intervals is not None:
                countable &= ~is_anything(intervals[0]) | ~intervals[1]
            ulps = float(off[countable].max(initial=0.0))

    def bound(index: int) -> str:
        if intervals is None or not intervals[1][index] or is_point(Bounds(*(end[index] for end in intervals[0]))):
            return ", exactly"
        low, high = (end[index] for end in intervals[0])
        return f", within {low:.9g} and {high:.9g}"

    return wrong, ulps, bound


