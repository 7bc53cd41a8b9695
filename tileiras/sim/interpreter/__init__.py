"""The reference interpreter: executes a cuda_tile module with NumPy.

Every operation is implemented from its specification and shares no code with the lowering. Behavior that the
specification leaves undefined is either an error with the operation's location (out-of-bounds accesses, broken
assumptions, tile numbers outside of an index space) or a value of arbitrary bits (unpadded out-of-bounds elements,
overflow contrary to its attribute, division by zero): see `undefined`.

Tile blocks run one after the other, x fastest, each operation in program order; one that polls memory lets the next
ones run until memory changes.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Block, Operation
from tileiras.ir.encoding import check_encoding, encoded

from .. import blas
from ..errors import sizes_of
from ..memory import Journal, Memory

# Importing a family registers the implementations of its operations.
from . import arith, atomics, calls, control_flow, conversion, debug, math, memory, mma, reduce, shape, views
from .arguments import ArgumentMismatch, bind_arguments, parameter_names
from .machine import MEANINGS, InterpreterError, Machine
from .undefined import RUN, STAND_INS, Run
from .values import elements_of, width_of

if TYPE_CHECKING:
    from typing import TextIO

    from tileiras.dialects import cuda_tile

__all__ = ["MEANINGS", "ArgumentMismatch", "InterpreterError", "check_arguments", "interpret", "load_module"]

_FAMILIES = (arith, atomics, calls, control_flow, conversion, debug, math, memory, mma, reduce, shape, views)
_MAGIC = b"\x7fTileIR\0"

Source = str | bytes | os.PathLike | Operation
"""A path, text, bytecode, or a module."""


def load_module(source: Source, filename: str | None = None) -> Operation:
    """Load the module of ``source``: bytecode or MLIR text as bytes, text, a path, or a parsed module.

    Raises CompileError (code 3) if it does not parse or verify, OSError if a path cannot be read.
    """
    if isinstance(source, Operation):
        return source
    if isinstance(source, os.PathLike) or isinstance(source, str) and not _is_text(source):
        if os.fsdecode(source).endswith(".py"):
            # The front end is a higher layer than the simulators, which depend only on the specification.
            name = os.fsdecode(source)
            message = f"{name} is cuTile Python: interpret the result of tileiras.parse({name!r})"
            raise CompileError.at(None, message, ExitCode.INVALID_INPUT)
        filename = filename or os.fspath(source)
        with open(source, "rb") as file:
            source = file.read()
    if isinstance(source, bytes | bytearray | memoryview):
        source = bytes(source)
        if source.startswith(_MAGIC):
            from tileiras.bytecode import read_module

            module = read_module(source, filename or "<bytecode>")
        else:
            check_encoding(source, filename or "<string>")
            module = _parse(source.decode(), filename)
    else:
        encoded(source, filename or "<string>")
        module = _parse(source, filename)
    from tileiras.ir import verify

    verify(module)
    return module


def _parse(text: str, filename: str | None) -> Operation:
    from tileiras.ir import parse_module

    return parse_module(text, filename or "<string>")


def _items(module: Operation, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def _entry(module: Operation, name: str | None) -> Operation:
    entries = {op.attributes["sym_name"].value: op for op in _items(module, "cuda_tile.entry")}
    if name is None and len(entries) == 1:
        return next(iter(entries.values()))
    names = ", ".join(entries) or "none"
    if name is None and entries:
        raise ArgumentMismatch(f"one of the module's entries has to be named: {names}")
    if name not in entries:
        raise ArgumentMismatch(f"no entry{f' {name!r}' if name is not None else ''}; the module has {names}")
    return entries[name]


def _load_globals(module: Operation, memory: Memory, kind: str = "cuda_tile.global") -> dict[str, int]:
    addresses = {}
    for op in _items(module, kind):
        name, value = op.attributes["sym_name"].value, op.attributes["value"]
        data = np.array(elements_of(value, tuple(value.type.shape)), order="C")
        if width_of(value.type.element_type) == 4:
            nibbles = np.resize(data.view(np.uint8), -(-data.size // 2) * 2) & 0xF
            data = nibbles[::2] | nibbles[1::2] << 4
        if "constant" in op.attributes:
            data.flags.writeable = False
        alignment = op.attributes.get("alignment")
        least = max(256, alignment.value if alignment is not None else 0)
        addresses[name] = memory.allocate(data, alignment=least, name=f"global '{name}'")
    return addresses


def _grid(grid: int | Sequence[int]) -> tuple[int, int, int]:
    sizes = sizes_of(grid)
    if not 1 <= len(sizes) <= 3 or any(not 1 <= size < 1 << 24 for size in sizes):
        raise ArgumentMismatch(f"a grid has one to three sizes from 1 to 2^24-1, got {grid!r}")
    return (*sizes, 1, 1, 1)[:3]


def _is_text(source: str) -> bool:
    """A string with a line break is text, and so is one with a brace, unless it ends in the suffix of a file."""
    return "\n" in source or "{" in source and not source.endswith((".mlir", ".tileirbc"))


def check_arguments(
    source: Source, entry: str | None, args: Sequence[Any], names: Sequence[str] = ()
) -> None:
    """Raise ArgumentMismatch unless ``args`` fit the parameters of an entry: count, element types, ranges.

    For launches without the parameters' types, such as the emulator's. ``names`` are the names of arguments in
    messages, instead of their numbers.
    """
    block = _entry(load_module(source), entry).regions[0].block
    bind_arguments(Memory.scratch(), [argument.type for argument in block.arguments], args, names)


def interpret(
    source: Source, entry: str | None, grid: int | Sequence[int], args: Sequence[Any], *,
    memory: Memory | None = None, output: TextIO | None = None, random_runs: int = 1, names: Sequence[str] = (),
    machine_type: Callable[..., Machine] = Machine, behind: Sequence[np.ndarray] = (),
    functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> dict[int, np.ndarray]:
    """Run ``entry`` of a cuda_tile module on ``grid`` tile blocks; arrays among ``args`` are updated in place.

    ``source`` is a path, bytecode, MLIR text or a module (for a cuTile Python file, the result of `tileiras.parse`);
    ``args`` are the entry's parameters in order. A NumPy array is a pointer to its first element (views of one base
    array point into one allocation); bf16 and f8 data may be passed as unsigned integers of the same size. An integer
    for a pointer is an address returned by a :class:`tileiras.sim.Memory`. Python and NumPy numbers are scalars.
    ``output`` receives printed text, standard output by default. ``names`` are the names of arguments in messages,
    instead of their numbers. ``machine_type`` constructs the machine of the first run, for observers; the runs that
    search for undefined values have other machines. ``behind`` are arrays that pointers in memory lead to.
    ``functions`` are those that the kernel calls (`preview$call`): name -> a function of NumPy arrays, which returns
    its result.

    Returns the undefined elements that the kernel left: position of an argument, or of an array ``behind`` them ->
    array of bool of its shape, only for arrays with such elements. These are elements that differed in runs with other
    values in place of undefined ones, ``random_runs`` of them with random values: an element that few of those values
    change may be missed.

    Raises CompileError if the source is not valid, ArgumentMismatch if entry, grid or arguments do not fit,
    InterpreterError (located at the operation) if the behavior of the kernel is undefined, or if it uses an undefined
    value as an address, an index or a condition.
    """
    module = load_module(source)
    function = _entry(module, entry)
    sizes = _grid(grid)
    memory = memory if memory is not None else Memory.scratch()
    block = function.regions[0].block
    bound = bind_arguments(memory, [argument.type for argument in block.arguments], args, names)
    called = dict(zip(block.arguments, parameter_names(len(args), names)))
    globals_ = _load_globals(module, memory)
    first = Run(0)
    place = memory.cursor
    machine = machine_type(memory, sizes, globals_, output if output is not None else sys.stdout)
    machine.names, machine.functions = called, functions
    stores = memory.journal = Journal()
    try:
        _run(first, machine, block, bound)
    finally:
        memory.journal = None
    if not first.used:
        return {}
    arrays = [*args, *behind]
    results = [np.array(arg) if isinstance(arg, np.ndarray) else None for arg in arrays]
    undefined: dict[int, np.ndarray] = {}
    stores.exchange()
    try:
        for number in range(1, len(STAND_INS) + random_runs):
            with Journal() as memory.journal:
                memory.cursor = place
                again = Machine(memory, sizes, globals_, io.StringIO())
                again.names, again.functions, again.order = called, functions, machine.order
                _run(Run(number, first.seen), again, block, bound)
                for position, (result, arg) in enumerate(zip(results, arrays)):
                    if result is not None and (differs := (_bits(result) != _bits(arg)).any(-1)).any():
                        undefined[position] = undefined.get(position, False) | differs
    finally:
        memory.journal = None
        stores.exchange()
    return undefined


def _run(run: Run, machine: Machine, block: Block, bound: list) -> None:
    """Execute all tile blocks of a grid."""
    token = RUN.set(run)
    try:
        with np.errstate(all="ignore"), blas.one_thread():
            machine.run_tile_blocks(block, bound)
    finally:
        RUN.reset(token)


def _bits(array: np.ndarray) -> np.ndarray:
    """The array's bytes, in an additional last dimension."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
