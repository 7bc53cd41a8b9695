"""Trials of a launch in the interpreter: which memory views cover, and which tiles lie outside of their views."""

from __future__ import annotations

import functools
import io
from typing import Any

import numpy as np

from tileiras.dialects.cuda_tile import ForOp
from tileiras.ir import BlockArgument, FloatType, Operation, Value
from tileiras.sim.interpreter.machine import ELEMENTWISE, MEANINGS, Machine
from tileiras.sim.interpreter.values import TensorView, dtype_of, width_of

from .facts import source
from .guarded import GUARD, Guarded

LARGEST_SIZE = 1 << 20
"""Elements along a dimension; rows of that length, as reductions have them, are a few MB."""
_STEPS = 30_000
"""Limit on operations of one tile block; a block that waits for another would not terminate."""


class Unfit(Exception):
    """No launch fits: the reason, and the operation."""

    def __init__(self, message: str, operation: Operation | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class OutsideView(Exception):
    """A tile number beyond a view, and the size that would contain it."""

    def __init__(self, tensor: Any, dim: int, size: int, tile: int, op: Operation) -> None:
        super().__init__(f"needs {size} elements along dimension {dim}")
        self.tensor, self.dim, self.size, self.tile, self.op = tensor, dim, size, tile, op


class Probe(Machine):
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


def _zero_results(machine: Probe, op: Operation) -> Any:
    """Zeros for the results of an operation that is not computed."""
    machine.steps += 1
    zeros = [_zeros(tuple(each.type.shape), dtype_of(each.type.element_type)) for each in op.results]
    return zeros[0] if len(zeros) == 1 else tuple(zeros)


@functools.lru_cache(maxsize=64)
def _zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.zeros(shape, dtype)


def _probe(machine: Probe, op: Operation) -> Any:
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


def _check_index(machine: Probe, op: Operation) -> None:
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
            sizes = [each * view.steps[position] + view.tile_shape[position]
                     for each in (number + _trips_left(machine, index), number)]  # fmt: skip
            # A loop may end before its last trip.
            size = sizes[sizes[0] > LARGEST_SIZE]
            tensor = source(op.view.defining_op.operands[0]) if op.view.defining_op else None
            raise OutsideView(tensor, dim, size, view.tile_shape[position], op)


def _trips_left(machine: Probe, index: Value) -> int:
    """How far a tile number goes on counting in the loop that counts it, possibly from a number on: a constant count
    of tiles asks for all of them at once."""
    counter = source(index)
    while counter.defining_op is not None and counter.defining_op.name == "cuda_tile.addi":
        addends = [source(each) for each in counter.defining_op.operands]
        counter = next((each for each in addends if each.defining_op is None), addends[0])
    loop = counter.owner.parent_op if isinstance(counter, BlockArgument) else None
    if not isinstance(loop, ForOp) or loop.induction_variable is not counter:
        return 0
    step = int(machine[loop.step])
    return (int(machine[loop.upperBound]) - 1 - int(machine[counter])) // step * step
