"""A launch for drawn sizes: strides, grid and memory are determined by executing the kernel on guarded memory.

Every pointer first gets more memory than a small launch can use.  Its array has the bytes that the kernel
touches there or that its views cover.  An access to a tile outside of a view shows which size was too small; a tile
block that touches no new memory, or leaves a view, marks the end of the grid.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.ir import FloatType, Operation
from tileiras.sim import blas
from tileiras.sim.errors import ArgumentMismatch
from tileiras.sim.interpreter import _load_globals
from tileiras.sim.interpreter.arguments import bind_arguments
from tileiras.sim.interpreter.machine import ELEMENTWISE, MEANINGS, Deadlock, InterpreterError, Machine
from tileiras.sim.interpreter.undefined import RUN, Run
from tileiras.sim.interpreter.values import TensorView, dtype_of, width_of
from tileiras.sim.memory import Memory

from . import values
from .facts import Facts, Parameter, source
from .guarded import GUARD, Guarded
from .tables import Behind, Table

FILLED = 1 << 16
"""Elements of arrays that are initialized during the search, if addresses may depend on them."""
_REPAIRS = 12
_STEPS = 30_000
"""Limit on operations of one tile block; a block that waits for another would not terminate."""


class Unfit(Exception):
    """No launch fits: the reason, and the operation."""

    def __init__(self, message: str, operation: Operation | None = None) -> None:
        super().__init__(message)
        self.operation = operation


@dataclass
class Plan:
    """One draw: sizes and scalars by position, kind of values, padding of strides, the most blocks of an axis."""

    numbers: dict[int, int]
    kind: str = "whole"
    padding: int = 0
    blocks: tuple[int, int, int] = (2, 2, 2)
    seed: int = 0
    is_aliased: bool = False
    is_edge: bool = False
    """Run in lock step only: the launch tests the bounds of masks."""
    has_spare_blocks: bool = False
    """The grid has an extra block if that block touches nothing: launchers round grids up, and masks disable it."""
    large_scalars: int | None = None
    """Floating-point parameters take `values.LARGE` in turn, from this one on, for any values in arrays."""
    lengths: tuple[tuple[int, int], ...] = ()
    """Numbers in memory that bound loops, in turn: tiles, and further elements."""
    limit: int | None = None
    """Integers in memory are below it, or all different (`values.DISTINCT`)."""
    later: tuple[dict[int, int], ...] = ()
    """Numbers of the second row of each table, the third, and so on in turn; the first row has `numbers`."""

    @property
    def rows(self) -> list[MutableMapping[int, int]]:
        """The numbers of the rows of tables, in turn."""
        return [self.numbers, *(ChainMap(each, self.numbers) for each in self.later)]


@dataclass
class Fitted:
    """A launch: grid and arguments, to be copied before each run."""

    grid: tuple[int, int, int]
    arguments: list[Any]
    plan: Plan
    stores: set[int] = field(default_factory=set)
    """Positions of pointers that are stored through."""
    behind: list[Behind] = field(default_factory=list)
    """The arrays that tables lead to, in `memory`."""
    memory: Memory | None = None

    @contextlib.contextmanager
    def reachable(self) -> Iterator[None]:
        """Pointers in tables are valid in the runs of the block."""
        with self.memory.attached() if self.memory is not None else contextlib.nullcontext():
            yield

    def elements(self, facts: Facts) -> Iterator[tuple[int, Any]]:
        """(place among the results, element type) of each array: arguments, and those behind tables."""
        for parameter, value in zip(facts.arguments, self.arguments):
            if parameter.kind == "pointer" and isinstance(value, np.ndarray):
                yield parameter.position, parameter.element
        yield from enumerate((each.element for each in self.behind), len(self.arguments))

    def results(self, arguments: list[Any]) -> list[Any]:
        """The arguments of a run, and the contents of the arrays behind tables."""
        return [*arguments, *(each.array.copy() for each in self.behind)]

    def copies(self) -> list[Any]:
        """Copies of the arguments; aliased arrays stay aliased.  Arrays behind tables have their values before a
        run."""
        for each in self.behind:
            each.array[...] = each.contents
        fresh: dict[int, np.ndarray] = {}
        return [
            fresh.setdefault(id(value), value.copy()) if isinstance(value, np.ndarray) else value
            for value in self.arguments
        ]

    def describe(self) -> tuple[str, ...]:
        return tuple(
            f"{value.dtype}[{value.size}]" if isinstance(value, np.ndarray) else f"{value:g}"
            for value in self.arguments
        ) + tuple(f"{each.array.dtype}[{each.array.size}]" for each in self.behind)


class _OutsideView(Exception):
    """A tile number beyond a view, and the size that would contain it."""

    def __init__(self, tensor: Any, dim: int, size: int, tile: int, op: Operation) -> None:
        super().__init__(f"needs {size} elements along dimension {dim}")
        self.tensor, self.dim, self.size, self.tile, self.op = tensor, dim, size, tile, op


class _Probe(Machine):
    """Checks views and tile numbers, and stops a block that exceeds the limit of operations."""

    def __init__(
        self, memory: Guarded, grid: tuple[int, int, int], globals_: dict[str, int], leaves_floats: bool,
        plans: dict[int, list],
    ) -> None:  # fmt: skip
        """`leaves_floats`: floats decide nothing, and are not computed.  `plans`: those of other tile blocks."""
        super().__init__(memory, grid, globals_, io.StringIO())
        self.guarded = memory
        self.leaves_floats, self._plans = leaves_floats, plans
        self.steps = 0
        self.limit = _STEPS

    def _plan(self, block: Any) -> list:
        plan = self._plans.get(id(block))
        if plan is None:
            plan = [
                (op, _zero_results if self.leaves_floats and _is_arithmetic(op) else _probe, op.results)
                for op in block.operations
            ]
            self._plans[id(block)] = plan
        return plan


_SUMS = {f"cuda_tile.{name}" for name in ("mmaf", "mmaf_scaled", "reduce", "scan")}


def _is_arithmetic(op: Operation) -> bool:
    elements = [getattr(each.type, "element_type", None) for each in op.results]
    is_float = bool(elements) and all(isinstance(each, FloatType) for each in elements)
    return is_float and (op.name in ELEMENTWISE or op.name in _SUMS)


def _zero_results(machine: _Probe, op: Operation) -> Any:
    """Results of an operation that is not computed."""
    machine.steps += 1
    zeros = [_zeros(tuple(each.type.shape), dtype_of(each.type.element_type)) for each in op.results]
    return zeros[0] if len(zeros) == 1 else tuple(zeros)


@functools.lru_cache(maxsize=64)
def _zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.zeros(shape, dtype)


def _probe(machine: _Probe, op: Operation) -> Any:
    machine.steps += 1
    if machine.steps > machine.limit:
        raise Unfit("a tile block goes on for longer than a check follows", op)
    if hasattr(op, "index") and hasattr(op, "view"):
        _check_index(machine, op)
    outcome = MEANINGS[op.name](machine, op) if op.name in MEANINGS else machine._meaning(op)(machine, op)
    if isinstance(outcome, TensorView):
        _cover(machine.guarded, outcome)
    return outcome


def _cover(memory: Guarded, view: TensorView) -> None:
    if not all(view.shape):
        return
    last = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides))
    end = -(-(last + 1) * width_of(view.element) // 8)
    allocation = memory.find(view.address)
    if allocation is not None:
        end += view.address - allocation.address
        memory.ends[allocation.address] = max(memory.ends.get(allocation.address, 0), end)
        if end > GUARD:
            raise Unfit(f"a view covers {end} bytes")


def _check_index(machine: _Probe, op: Operation) -> None:
    view = machine[op.view]
    space = view.index_space
    for position, index in enumerate(op.index):
        if position == view.sparse:
            continue
        number = int(machine[index])
        if number < 0:
            continue
        if number >= space[position]:
            dim = view.dim_map[position]
            size = number * view.steps[position] + view.tile_shape[position]
            tensor = source(op.view.defining_op.operands[0]) if op.view.defining_op else None
            raise _OutsideView(tensor, dim, size, view.tile_shape[position], op)


def fit(entry: Operation, module: Operation, facts: Facts, plan: Plan) -> Fitted:
    """The launch of a plan.  Raises Unfit if no launch fits."""
    limits: tuple[int | None, ...] = (plan.limit, 4, 2, 1) if may_index(facts) else (plan.limit,)
    values_of = [(plan.kind, limit) for limit in limits]
    if facts.asserts:
        values_of.append((values.POSITIVE, None))
    problem: Unfit | None = None
    for kind, limit in values_of:
        trial = Plan(**{**plan.__dict__, "numbers": dict(plan.numbers), "kind": kind, "limit": limit,
                        "later": tuple(dict(each) for each in plan.later)})  # fmt: skip
        try:
            return _fit(entry, module, facts, trial)
        except Unfit as error:
            problem = problem or error
    assert problem is not None
    raise problem


def may_index(facts: Facts) -> bool:
    """Whether integers in memory may number tiles or elements."""
    tables = {each.pointer for each in facts.tables}
    return any(
        each.kind in ("pointer", "address") and _may_index(each.element) and each.position not in tables
        for each in facts.parameters
    )


def _may_index(element: Any) -> bool:
    return getattr(element, "keyword", None) is None and getattr(element, "width", 64) > 4


def _fit(entry: Operation, module: Operation, facts: Facts, plan: Plan) -> Fitted:
    for _ in range(_REPAIRS):
        for numbers in plan.rows:
            settle_strides(facts, numbers, plan.padding)
        try:
            trial = _Trial(entry, module, facts, plan)
        except ArgumentMismatch as error:
            raise Unfit(str(error)) from None
        try:
            try:
                grid = trial.grow()
            except Deadlock:
                trial = _Trial(entry, module, facts, plan)
                grid = trial.together()
            return trial.fitted(grid)
        except _OutsideView as outside:
            _repair(facts, plan, outside)
    raise Unfit("sizes that the program's tiles ask for do not settle")


def _repair(facts: Facts, plan: Plan, outside: _OutsideView) -> None:
    described = facts.sizes_of.get(outside.tensor, [])
    size = described[outside.dim] if outside.dim < len(described) else None
    least = outside.size - outside.tile
    few = [] if size is None or size[0] != "parameter" else [row for row in plan.rows if row[size[1]] <= least]
    if size is None or not few or outside.size > 1 << 14:
        raise Unfit(f"a tile lies outside of its view: it {outside}", outside.op)
    parameter = facts.parameters[size[1]]
    for row in few:
        # The last tile stays as partial as it was drawn.
        part = (row[size[1]] - 1) % outside.tile + 1
        row[size[1]] = -(-(least + part) // parameter.divisor) * parameter.divisor


def settle_strides(facts: Facts, numbers: MutableMapping[int, int], padding: int) -> None:
    """Set strides that are parameters: tensors are row-major, with rows padded by `padding` elements."""
    positions: set[int] = set()
    for view in facts.views:
        sizes = [_number(each, numbers) for each in view.shape]
        covered = 1
        for size, stride in zip(sizes, view.strides):
            if stride is not None and (stride[0] == "constant" or stride[1] in positions):
                covered = max(covered, _number(stride, numbers) * max(size, 1))
        for size, stride in reversed(list(zip(sizes, view.strides))):
            if stride is None or stride[0] == "constant" or stride[1] in positions:
                continue
            parameter = facts.parameters[stride[1]]
            if parameter.kind == "stride":
                padded = covered + padding * parameter.divisor
                numbers[stride[1]] = max(-(-padded // parameter.divisor) * parameter.divisor, 1)
                positions.add(stride[1])
            covered = max(covered, _number(stride, numbers) * max(size, 1))


def _number(described: tuple[str, int] | None, numbers: Mapping[int, int]) -> int:
    if described is None:
        return 1
    return described[1] if described[0] == "constant" else numbers.get(described[1], 1)


class _Trial:
    """The kernel on guarded memory."""

    def __init__(self, entry: Operation, module: Operation, facts: Facts, plan: Plan) -> None:
        self.entry, self.facts, self.plan = entry, facts, plan
        self.module = module
        self.memory = Guarded()
        self.leaves_floats = not (facts.rounds_floats or facts.reads_floats or facts.asserts)
        self.plans: dict[int, list] = {}
        self.addresses: dict[int, int] = {}
        self.tables = {each.pointer: each for each in facts.tables}
        self.behind: dict[tuple[int, int], tuple[Parameter, int]] = {}
        """(position of a column, row) -> the column, and the guarded address."""
        arguments = []
        for parameter in facts.arguments:
            if parameter.kind == "pointer":
                data = self._guard(parameter)
                self.addresses[parameter.position] = self.memory.allocate(data)
                if table := self.tables.get(parameter.position):
                    rows = self._rows(table)
                    data[: rows * table.width] = table.contents(rows * table.width, self._numbers(table, rows))
                arguments.append(data)
            else:
                arguments.append(self._scalar(parameter))
        block = entry.regions[0].block
        self.bound = bind_arguments(self.memory, [each.type for each in block.arguments], arguments)
        self.globals = _load_globals(module, self.memory)
        self.scalars = arguments

    def _guard(self, parameter: Parameter) -> np.ndarray:
        dtype = values.dtype_in_memory(parameter.element)
        data = np.zeros(GUARD // dtype.itemsize, dtype)
        is_read = self.facts.rounds_floats or self.facts.asserts or _may_index(parameter.element)
        if is_read and parameter.position not in self.tables:
            data[:FILLED] = self._contents(parameter, FILLED)
        return data

    def _rows(self, table: Table) -> int:
        """The rows of a table: those of its view."""
        views = [each for each in self.facts.views if each.pointer == table.pointer]
        return max(_number(each.shape[0], self.plan.numbers) for each in views)

    def _numbers(self, table: Table, rows: int) -> Iterator[Mapping[int, int]]:
        """The numbers of each row, with addresses of guarded memory."""
        turns = self.plan.rows
        for row in range(rows):
            numbers = ChainMap({}, turns[row % len(turns)])
            for position in table.columns.values():
                parameter = self.facts.parameters[position]
                if parameter.kind == "address":
                    numbers[position] = self.memory.allocate(self._guard(parameter))
                    self.behind[position, row] = parameter, numbers[position]
            yield numbers

    def _contents(self, parameter: Parameter, count: int, row: int = 0) -> np.ndarray:
        if parameter.starts_at_zero:
            return np.zeros(count, values.dtype_in_memory(parameter.element))
        if parameter.counts_trips and self.plan.lengths and self.plan.limit in (None, values.DISTINCT):
            return values.lengths(parameter.element, count, parameter.tile, self.plan.lengths)
        seed = self.plan.seed * 100 + parameter.position + 100_000 * row
        return values.array(parameter.element, count, self.plan.kind, seed, self.plan.limit, parameter.scales)

    def _scalar(self, parameter: Any) -> Any:
        if parameter.kind == "float":
            if self.plan.large_scalars is not None:
                return values.large(parameter.element, self.plan.large_scalars + parameter.position)
            return values.scalar(parameter.element, self.plan.kind, self.plan.seed + parameter.position)
        return self.plan.numbers[parameter.position]

    def run(self, block_id: tuple[int, int, int], grid: tuple[int, int, int]) -> bool:
        """Execute one tile block; whether it touches memory that no earlier block has.  Raises Unfit, _OutsideView."""
        machine = _Probe(self.memory, grid, self.globals, self.leaves_floats, self.plans)
        machine.block_id = block_id
        block = self.entry.regions[0].block
        machine.bind(block.arguments, self.bound)
        self._run(lambda: machine.run_block(block))
        return self.memory.settle()

    def _run(self, program: Callable[[], Any]) -> None:
        """Execute tile blocks.  Raises Unfit, _OutsideView, Deadlock."""
        self.memory.touched = []
        token = RUN.set(Run(0))
        try:
            with np.errstate(all="ignore"), blas.one_thread():
                program()
        except Deadlock:
            raise
        except InterpreterError as error:
            raise Unfit(error.diagnostic.message, _operation_at(self.entry, error)) from None
        finally:
            RUN.reset(token)

    def together(self) -> tuple[int, int, int]:
        """The grid of a kernel whose tile blocks wait for each other: the plan's.  A launch in which they wait without
        end is judged."""
        grid = tuple(most if uses else 1 for most, uses in zip(self.plan.blocks, self.facts.axes))
        machine = _Probe(self.memory, grid, self.globals, self.leaves_floats, self.plans)
        machine.limit *= int(np.prod(grid))
        with contextlib.suppress(Deadlock):
            self._run(lambda: machine.run_tile_blocks(self.entry.regions[0].block, self.bound))
        self.memory.settle()
        return grid

    def grow(self) -> tuple[int, int, int]:
        """The grid: along each dimension as many blocks as touch something new, at most the plan's."""
        whole = tuple(
            most if uses and self.facts.reads_grid else 1 for most, uses in zip(self.plan.blocks, self.facts.axes)
        )
        grid, spare = list(whole), [0, 0, 0]
        self.run((0, 0, 0), whole)
        for axis, uses in enumerate(self.facts.axes):
            while uses and grid[axis] < self.plan.blocks[axis]:
                block = tuple(grid[axis] if each == axis else 0 for each in range(3))
                before = dict(self.memory.ends)
                try:
                    if not self.run(block, tuple(max(a, b + 1) for a, b in zip(grid, block))):
                        spare[axis] = int(self.plan.has_spare_blocks and not self.memory.touched)
                        break
                except (Unfit, _OutsideView):
                    self.memory.ends = before
                    break
                grid[axis] += 1
        # Corners of the grid touch more than its edges.
        for block in np.ndindex(*grid):
            if sum(map(bool, block)) > 1 or (self.facts.reads_grid and any(block)):
                self.run(tuple(block), tuple(grid))
        return (grid[0] + spare[0], grid[1] + spare[1], grid[2] + spare[2])

    def fitted(self, grid: tuple[int, int, int]) -> Fitted:
        arguments, stores = [], set()
        for parameter, result in zip(self.facts.arguments, self.scalars):
            if parameter.kind != "pointer":
                arguments.append(result)
                continue
            arguments.append(self._initial(parameter, self.addresses[parameter.position]))
            if self.addresses[parameter.position] in self.memory.stores:
                stores.add(parameter.position)
        memory, behind = self._behind(arguments)
        if self.plan.is_aliased:
            _alias(self.facts, arguments, stores)
        return Fitted(grid, arguments, self.plan, stores, behind, memory)

    def _initial(self, parameter: Parameter, address: int, row: int = 0) -> np.ndarray:
        """The values before a run of an array, which has the elements that the kernel touches or that views cover."""
        count = values.count_in_memory(parameter.element, self.memory.ends.get(address, 0))
        contents = self._contents(parameter, max(count, 1), row)
        # A stray store of NaN onto NaN would not show.
        if address in self.memory.stores:
            return contents
        return values.poisoned(
            parameter.element, contents, self.memory.untouched(address, contents.size, contents.itemsize)
        )

    def _behind(self, arguments: list[Any]) -> tuple[Memory | None, list[Behind]]:
        """The arrays behind tables, whose addresses are entered there."""
        if not self.tables:
            return None, []
        memory, behind = Memory.detached(), []
        numbers: dict[int, dict[int, int]] = {}
        for (position, row), (parameter, address) in self.behind.items():
            contents = self._initial(parameter, address, row)
            table = next(each for each in self.facts.tables if position in each.columns.values())
            name = f"the array of row {row} of argument {table.pointer}"
            behind.append(Behind(parameter.element, name, contents.copy(), contents))
            numbers.setdefault(row, {})[position] = memory.allocate(behind[-1].array, name=name)
        turns = self.plan.rows
        for pointer, table in self.tables.items():
            rows = [ChainMap(numbers.get(row, {}), turns[row % len(turns)]) for row in range(self._rows(table))]
            arguments[pointer] = table.contents(arguments[pointer].size, rows)
        return memory, behind


def _alias(facts: Facts, arguments: list[Any], stores: set[int]) -> None:
    """Arrays of one type that are only read become one array, of the longest."""
    by_type: dict[Any, int] = {}
    tables = {each.pointer for each in facts.tables}
    for parameter in facts.arguments:
        if parameter.kind != "pointer" or parameter.position in stores | tables:
            continue
        first = by_type.setdefault(str(parameter.element), parameter.position)
        longest = max(arguments[first], arguments[parameter.position], key=len)
        for position in [*(p for p, a in enumerate(arguments) if a is arguments[first]), parameter.position]:
            arguments[position] = longest


def _operation_at(entry: Operation, error: InterpreterError) -> Operation | None:
    return next((op for op in entry.walk() if op.location is error.diagnostic.location), None)

