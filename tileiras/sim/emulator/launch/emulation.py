"""`emulate`: one launch of an entry with NumPy arguments."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentMismatch, sizes_of
from ...memory import Journal, Memory
from .. import rules
from ..arithmetic import rounding
from ..errors import EmulationError, UndescribedParameters
from ..instructions import decode, entry_of
from ..ptx import parser
from ..ptx.module import Function, Module, Variable
from ..ptx.program import Program
from . import hidden_parameters, launch_facts
from .recording import Recorder
from .scheduler import Launch

#: Default size of dynamic shared memory: the sm_90 opt-in limit of a block (227 KiB), less the variables of fixed size.
_MOST_SHARED = 232448
_INDEX_LIMITS = (2**31 - 1, 65535, 65535)


class EmulationResult:
    """``instruction_counts``: opcode with modifiers -> times a warp issued it (also under a false guard); ``steps``:
    their sum; ``output``: text printed by the kernel; ``bank_wavefronts``: PTX line -> (wavefronts of its accesses
    to shared memory, their minimum), if counted; ``searched_races``: whether the search for races followed the
    launch to its end."""

    __slots__ = ("bank_wavefronts", "instruction_counts", "output", "searched_races", "steps")

    def __init__(self, launch: Launch) -> None:
        counts: Counter[str] = Counter()
        for block, times in zip(launch.program.blocks, launch.block_counts):
            if times:
                for item in block.instructions:
                    counts[".".join((item.opcode, *item.modifiers))] += times
        self.instruction_counts: dict[str, int] = dict(sorted(counts.items()))
        self.steps = launch.steps
        self.output = "".join(launch.output)
        self.searched_races = launch.races is not None and not launch.races.clocks.exhausted
        lines = launch.banks.lines if launch.banks is not None else {}
        self.bank_wavefronts: dict[int, tuple[int, int]] = {line: tuple(lines[line]) for line in sorted(lines)}


@functools.lru_cache(maxsize=32)
def _parse(text: str) -> Module:
    return parser.parse(text)


@functools.lru_cache(maxsize=32)
def _program(text: str, entry: str, farther: bool = False, path_alone: bool = False) -> Program:
    return decode(_parse(text), entry, farther, path_alone)


def emulate(
    ptx: str | bytes,
    entry: str,
    grid: int | Sequence[int],
    args: Sequence[Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    block: int | Sequence[int] | None = None,
    cluster: Sequence[int] | None = None,
    shared_memory: int | None = None,
    seed: int | None = 0,
    step_limit: int = 1 << 30,
    check_uninitialised: bool = True,
    check_races: bool = True,
    count_bank_conflicts: bool = False,
    hidden: Callable[[Sequence[bytes], Sequence[int]], Sequence[bytes]] | None = None,
    waive: Sequence[str] = (),
    recorder: Recorder | None = None,
    blocks: Sequence[int] | None = None,
    multiply: bool = True,
    journal: Journal | None = None,
    leader: int = 0,
    compared: Callable[[int, np.ndarray], None] | None = None,
    ahead: int = 0,
    farther: bool = False,
    apart: bool = True,
) -> EmulationResult:
    """Run ``entry`` of PTX, text or an artifact's bytes, over ``grid`` (in thread blocks, x first) and update ``args``'
    arrays in place.

    ``args`` are the entry's parameters in order: NumPy arrays are pointers (views of one base array point into one
    allocation), integers are scalars or addresses returned by a `tileiras.sim.Memory`, NumPy scalars and Python numbers
    are scalars of the parameter's width, bytes fill a parameter of that many bytes.

    ``metadata`` is the content of a NAME.json; it adds information that PTX lacks: parameter types, block and cluster
    shape if the PTX has no `.reqntid`, dynamic shared memory in bytes, and the contents of hidden parameters (tensor
    maps). ``block``, ``cluster`` and ``shared_memory`` override both.

    ``seed`` chooses the order in which warps advance; None runs all warps in lock step, which is the fastest.
    ``step_limit`` bounds the instructions issued, in warps. ``check_uninitialised``: reading shared memory that was
    never written is an error, as is a shuffle from an inactive lane. ``check_races``: so are accesses of one place in
    shared memory by two warps, one of them a write that changes it, that no barrier orders. ``count_bank_conflicts``
    fills the result's ``bank_wavefronts``.

    ``hidden`` computes the values of `.hidden` parameters, in order, from those of the others and from their own sizes:
    tensor maps in the format of `emulator.tensor_map`. ``waive`` names rules of `emulator.rules` that are not checked.
    ``recorder`` receives the events of the warps, in program order of each; `mbarrier.try_wait` then always waits for
    the phase. ``blocks`` restricts the launch to whole clusters, given by the positions of their blocks in the order of
    clusters (x first, the blocks of a cluster next to each other). Without ``multiply``, for recordings, dots leave
    their accumulators unchanged, and values that decide no path and no address are not computed (`ptx.path_data`).
    ``journal`` saves the data that the launch overwrites, to undo it. `elect.sync` elects the first lane of its mask
    from ``leader`` on: the hardware may elect any, so that correct code is correct for each. ``compared`` takes the
    line of each ordering comparison of integers that is executed, and the differences of its operands in the active
    threads. ``ahead``, with a seed: 1 lets warps of low numbers run ahead of the others as far as they can, -1 those of
    high numbers. ``farther``: approximate instructions return the farther one of the two numbers around the exact
    result, which differs by less than a unit in the last place, instead of the nearest one. Without ``apart`` and
    ``seed`` blocks with `wgmma` run in lock step: an error if their paths part while accumulators in flight are moved.

    Raises EmulationError: PTX that does not parse, an unsupported instruction, an access outside memory or misaligned,
    a race, a deadlock, a trap, a failed device assertion, the step limit; and ArgumentMismatch for a grid or arguments
    that do not fit the entry.
    """
    if not isinstance(ptx, str):
        ptx = bytes(ptx).decode("utf-8", "surrogateescape")
    kernel = _kernel(metadata, entry)
    if cluster is None:
        entry, kernel = launched_kernel(kernel, entry, grid, args)
    program = _program(ptx, entry, farther and rounding.APPROXIMATE.search(ptx) is not None, not multiply)
    shapes = _shapes(program.entry, kernel, grid, block, cluster)
    memory = Memory.scratch()
    memory.journal = journal
    parameters = _parameters(program, kernel, memory, args, hidden)
    launch = Launch(
        program, memory, *shapes, _dynamic_shared_memory(program, kernel, shared_memory), parameters, seed, step_limit,
        check_uninitialised, check_races, count_bank_conflicts, rules.waived(waive), recorder, _numbers(blocks, shapes),
        multiply, leader, compared, ahead if seed is not None else 0, apart or seed is not None,
    )  # fmt: skip
    launch.bind_addresses(_allocate_variables(_parse(ptx), memory))
    launch.run()
    return EmulationResult(launch)


def _shapes(
    function: Function,
    kernel: Mapping[str, Any],
    grid: int | Sequence[int],
    block: int | Sequence[int] | None,
    cluster: Sequence[int] | None,
) -> tuple[tuple[int, int, int], ...]:
    """The shapes of grid, block and cluster: as given, else from the PTX, else from the metadata."""
    entry, directives = function.name, function.directives
    block_shape = _shape(
        block or directives.get("reqntid") or kernel.get("block") or directives.get("maxntid"), "block", entry
    )
    cluster_shape = _shape(
        cluster or directives.get("reqnctapercluster") or kernel.get("cluster") or (1,), "cluster", entry
    )
    grid_shape = _shape(grid, "grid", entry)
    blocks = kernel.get("cluster_blocks")
    if blocks and not cluster and not any(size % members for size, members in zip(grid_shape, blocks)):
        cluster_shape = _shape(blocks, "cluster", entry)
    if directives.get("blocksareclusters") is not None:
        grid_shape = tuple(g * c for g, c in zip(grid_shape, cluster_shape))
    _check_shapes(grid_shape, block_shape, cluster_shape)
    return grid_shape, block_shape, cluster_shape


def launch_shapes(
    ptx: str, entry: str, grid: int | Sequence[int], metadata: Mapping[str, Any] | None = None,
    args: Sequence[Any] | None = None,
) -> tuple[tuple[int, int, int], ...]:  # fmt: skip
    """The shapes of grid (in blocks), block and cluster of a launch by `emulate`; raises the same errors."""
    entry, kernel = launched_kernel(_kernel(metadata, entry), entry, grid, args)
    return _shapes(entry_of(_parse(ptx), entry), kernel, grid, None, None)


def launched_kernel(
    kernel: Mapping[str, Any], entry: str, grid: int | Sequence[int], args: Sequence[Any] | None
) -> tuple[str, Mapping[str, Any]]:
    """The entry, and its row of NAME.json, that a launch of a kernel starts: the variant for pairs of tile blocks if
    the grid is a multiple of their clusters and the arguments, if known, satisfy its conditions."""
    pairs = kernel.get("pairs")
    sizes = (*sizes_of(grid), 1, 1)
    if pairs is None or any(size % members for size, members in zip(sizes, pairs["cluster_blocks"])):
        return entry, kernel
    if not launch_facts.hold(pairs.get("where", ()), sizes[0], kernel.get("parameters", ()), args):
        return entry, kernel
    return pairs["name"], {**kernel, **pairs, "pairs": None}


def _dynamic_shared_memory(program: Program, kernel: Mapping[str, Any], size_argument: int | None) -> int:
    """Bytes of dynamic shared memory: as given, else from the metadata, else all the rest."""
    if not program.dynamic_align:
        return 0
    size = size_argument if size_argument is not None else kernel.get("shared_memory")
    return size if size is not None else _MOST_SHARED - program.shared_bytes


def _check_shapes(grid: tuple[int, ...], block: tuple[int, ...], cluster: tuple[int, ...]) -> None:
    for axis, (blocks, limit, members) in enumerate(zip(grid, _INDEX_LIMITS, cluster)):
        if not 1 <= blocks <= limit:
            raise ArgumentMismatch(f"grid dimension {axis} is {blocks}, outside 1 to {limit}")
        if blocks % members:
            raise ArgumentMismatch(f"grid dimension {axis}, {blocks}, is not a multiple of the cluster's {members}")
    if np.prod(block) > 1024:
        raise ArgumentMismatch(f"a block of {int(np.prod(block))} threads; the limit is 1024")


def _numbers(blocks: Sequence[int] | None, shapes: tuple[tuple[int, int, int], ...]) -> Sequence[int] | None:
    if blocks is None:
        return None
    grid, _, cluster = (int(np.prod(shape)) for shape in shapes)
    whole = [first + member for first in blocks[::cluster] for member in range(cluster)]
    if not len(blocks) or list(blocks) != whole or any(first % cluster for first in blocks[::cluster]):
        raise ArgumentMismatch("the blocks to run are not whole clusters")
    if min(blocks) < 0 or max(blocks) >= grid:
        raise ArgumentMismatch(f"the blocks to run are not all among the {grid} of the grid")
    return blocks


def _shape(extents: int | Sequence[int], level: str, entry: str) -> tuple[int, int, int]:
    if extents is None:
        raise ArgumentMismatch(f"the {level} shape of '{entry}' is not in the PTX: give {level}= or metadata")
    sizes = sizes_of(extents)
    if not 1 <= len(sizes) <= 3 or any(size < 1 for size in sizes):
        raise ArgumentMismatch(f"a {level} shape has one to three positive extents, got {extents!r}")
    return (*sizes, *(1,) * (3 - len(sizes)))


def _kernel(metadata: Mapping[str, Any] | None, entry: str) -> Mapping[str, Any]:
    if metadata is None:
        return {}
    if "kernels" not in metadata:
        return metadata
    for kernel in metadata["kernels"]:
        if kernel["name"] == entry:
            return kernel
    raise ArgumentMismatch(f"the metadata has no kernel '{entry}'")


def _parameters(program: Program, kernel: Mapping[str, Any], memory: Memory, args: Sequence[Any], fill=None) -> bytes:
    """The kernel parameter space."""
    described = {parameter["offset"] for parameter in kernel.get("hidden_parameters", ())}
    offsets = program.parameter_offsets
    formal = [each for each in program.entry.params if not each.hidden and offsets[each.name] not in described]
    hidden = [each for each in program.entry.params if each.hidden and (fill or offsets[each.name] not in described)]
    if hidden and fill is None:
        raise UndescribedParameters(
            f"'{program.entry.name}' has hidden parameters (tensor maps), and no description says how to fill them"
        )
    if len(args) != len(formal):
        raise ArgumentMismatch(f"{program.entry.name} takes {len(formal)} arguments, {len(args)} are given")
    types = [parameter.get("type", "") for parameter in kernel.get("parameters", ())]
    data = bytearray(max(1, program.parameter_bytes))
    values = [
        _argument(number, parameter, types[number] if number < len(types) else "", memory, value)
        for number, (parameter, value) in enumerate(zip(formal, args))
    ]
    if hidden:
        values += fill(values, [parameter.size for parameter in hidden])
    for parameter, raw in zip([*formal, *hidden], values, strict=True):
        at = program.parameter_offsets[parameter.name]
        data[at : at + len(raw)] = raw
    if described and fill is None:
        hidden_parameters.fill(kernel, data)
    return bytes(data)


def _argument(number: int, parameter: Variable, type_name: str, memory: Memory, value: Any) -> bytes:
    size = parameter.size
    if isinstance(value, np.ndarray):
        if size != 8:
            raise ArgumentMismatch(f"argument {number} is an array, but the parameter is a scalar of {size} bytes")
        return memory.allocate(value, name=f"argument {number}").to_bytes(8, "little")
    if isinstance(value, bytes | bytearray):
        if len(value) != size:
            raise ArgumentMismatch(f"argument {number} has {len(value)} bytes, the parameter {size}")
        return bytes(value)
    floating = parameter.type.kind == "float" or type_name in rounding.FORMATS
    if isinstance(value, np.generic) and not isinstance(value, np.bool_):
        if value.dtype.itemsize == size and (value.dtype.kind not in "iu" or not floating):
            return value.tobytes()
        value = value.item()
    if isinstance(value, bool | np.bool_):
        value = int(value)
    if isinstance(value, float) or floating and isinstance(value, int):
        name = type_name if type_name in rounding.FORMATS else {2: "f16", 4: "f32", 8: "f64"}.get(size)
        if name is None or rounding.FORMATS[name].bits != 8 * size:
            raise ArgumentMismatch(f"argument {number} is a float, but the parameter has {size} bytes")
        with np.errstate(all="ignore"):
            return rounding.encode(np.array([float(value)]), name).tobytes()
    if isinstance(value, int):
        if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            raise ArgumentMismatch(f"argument {number}, {value}, does not fit the parameter's {size} bytes")
        return (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    raise ArgumentMismatch(f"argument {number} of type {type(value).__name__} is neither an array nor a number")


def _allocate_variables(module: Module, memory: Memory) -> dict[str, int]:
    """Addresses of the module's `.global` and `.const` variables, initialised for this launch."""
    addresses, arrays = {}, {}
    for variable in module.variables.values():
        if variable.space not in ("global", "const"):
            continue
        data = np.zeros(max(1, variable.size), np.uint8)
        data[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
        arrays[variable.name] = data
        addresses[variable.name] = memory.allocate(data, alignment=max(256, variable.align), name=variable.name)
    for variable in module.variables.values():
        for offset, symbol, addend, size in variable.references:
            if symbol not in addresses:
                raise EmulationError(f"the initialiser of '{variable.name}' refers to '{symbol}', which has no address")
            raw = (addresses[symbol] + addend).to_bytes(8, "little")[:size]
            arrays[variable.name][offset : offset + size] = np.frombuffer(raw, np.uint8)
    for variable in module.variables.values():
        if variable.space == "const":
            memory.find(addresses[variable.name]).writable = False
    return addresses
