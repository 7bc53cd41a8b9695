"""Interpreter of the levels below cuda_tile: executes functions of nv_tileaa and nv_tileas on memory.

Values are whole tiles, as for cuda_tile.  Layouts, atoms and barriers are ignored here; the verifiers check them.
Rings are modeled: a copy in flight arrives at the wait for it, and until then the contents of its stage are undefined,
as are those of a buffer whose memory another one overwrites.  Agents are tasks that take turns at their waits
(`tasks`).  Arithmetic is the interpreter's own (`borrowed`).  Dots are complete when they are issued: a missing wait
for a dot has no effect, and is not detected.

An operation without a rule ends the run (`NoRule`), so that no result may be wrong for lack of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileiras.ir import Operation

from ...memory import Memory
from .. import _grid, _load_globals
from ..arguments import bind_arguments
from ..tasks import Crew
from ..undefined import RUN, Run
from . import buffers, control_flow, memory, pipes, tensor_memory, tensors
from .descriptors import descriptors
from .machine import LoweredMachine, NoRule, rules

__all__ = ["LoweredMachine", "NoRule", "execute", "functions", "rules"]

_FAMILIES = (buffers, control_flow, memory, pipes, tensor_memory, tensors)
_PAIRS_OF = "nv_tileas.pairs_of"


def functions(module: Operation) -> list[Operation]:
    """The kernels of a module but those for pairs of tile blocks, which launches may start in the place of another."""
    return [op for op in module.walk() if op.name == "nv_tileaa.func" and _PAIRS_OF not in op.attributes]


def execute(
    module: Operation, grid: int | Sequence[int], args: Sequence[Any], *, memory: Memory | None = None,
    machine_type: Callable[..., LoweredMachine] = LoweredMachine,
) -> None:  # fmt: skip
    """Run the only kernel of a module of nv_tileaa or nv_tileas; arrays among `args` are updated in place.

    Tile blocks are executed one after the other, each as a cluster of its own.

    Raises NoRule for an operation that has no rule here, InterpreterError for undefined behavior: an access outside of
    memory, a wait that never ends.
    """
    (function,) = functions(module)
    memory = memory if memory is not None else Memory.scratch()
    block = function.regions[0].blocks[0]
    bound = bind_arguments(memory, [_Scalar(each.type) for each in block.arguments[: len(args)]], args)
    bound += descriptors(function, bound)
    globals_ = _load_globals(module, memory, "nv_tileaa.global")
    sizes = _grid(grid)
    spec = function.attributes["kernel_spec"]
    token = RUN.set(Run(0))
    try:
        with np.errstate(all="ignore"):
            machine = machine_type(memory, sizes, globals_, None)
            ctas = (spec.num_ctas or 1) if _is_shared(function) else 1
            for machine.block_id in machine.tile_blocks():
                _run_block(machine, function, bound, ctas)
    finally:
        RUN.reset(token)


def _is_shared(function: Operation) -> bool:
    """Whether each CTA of a tile block has a share of it; otherwise the first one does all."""
    return any(op.name.endswith(".get_cta_rank") for op in function.walk())


def _run_block(first: LoweredMachine, function: Operation, bound: list, ctas: int) -> None:
    """One tile block, of one CTA or several."""
    block = function.regions[0].blocks[0]
    crew = Crew()
    machines = [first, *(first.beside() for _ in range(1, ctas))]
    for rank, machine in enumerate(machines):
        machine.start(crew, rank, machines)
        machine.bind(block.arguments, bound)
    if ctas == 1 and not any(op.name == "nv_tileas.async.pipeline.agent_switch" for op in block.operations):
        crew.alone(lambda: first.run_block(block))
    else:
        crew.run([lambda machine=machine: machine.run_block(block) for machine in machines])


class _Scalar:
    """A parameter's type as arguments are bound to it."""

    def __init__(self, type: Any) -> None:
        self.element_type = _Pointer(type.pointee) if hasattr(type, "pointee") else type


class _Pointer:
    def __init__(self, pointee: Any) -> None:
        self.pointee_type = pointee
