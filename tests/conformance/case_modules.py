"""Kernels as data, and modules of several of them: texts, runs, comparisons.

A kernel loads tiles, executes operations on them and stores tiles.  Operands may be smaller or larger than the tiles
(several tile blocks, partial tiles at the end) and have one of four kinds of access:

static, dynamic   a partition view with sizes in its type, or given at run time
pointer           a tile of pointers, with a mask if the array is not a multiple of the tile
scalar            one pointer (tiles of rank 0)
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from case_values import DTYPES, is_integer
from instruction_forms import forms

import tileiras
from tileiras.codegen import ptxas
from tileiras.codegen.ptx import link as ptx_link
from tileiras.diagnostics import CompileError
from tileiras.sim import emulate, interpret
from tileiras.sim.errors import SimulationError

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


class Operand(NamedTuple):
    """A parameter: name without %, element type, tile shape, array, access, padding value.

    access "memory": the kernel's body accesses the parameter itself; its array is compared like an output's.
    """

    name: str
    element: str
    tile: tuple[int, ...]
    array: np.ndarray
    access: str = "static"
    padding: str | None = None


class Kernel(NamedTuple):
    """`reference` maps the inputs' arrays to the outputs', independently of both simulators; None if not available.

    `globals_` are declarations before the entry; `$entry` in them and in the body is the entry's name.  `prints`: the
    kernel's printed text is compared as well.
    """

    family: str
    name: str
    inputs: tuple[Operand, ...]
    body: str
    outputs: tuple[Operand, ...]
    grid: tuple[int, ...] = (1,)
    ulps: float = 0
    reference: Callable[..., Sequence[np.ndarray]] | None = None
    globals_: str = ""
    prints: bool = False


class Failure(NamedTuple):
    family: str
    name: str
    target: str
    stage: str
    message: str


class Result(NamedTuple):
    """The result of one kernel on one target.

    `emulated` is False if the same code was emulated for another target, `assembled` if it was assembled for an older
    one.
    """

    kernel: Kernel
    target: str
    assembled: bool
    emulated: bool
    ulps: float
    failure: Failure | None


def tile_type(shape: Sequence[int], element: str) -> str:
    return f"tile<{'x'.join([*map(str, shape), element])}>"


# ---- texts -----------------------------------------------------------------------------------------------------------

CARRIERS = {"i4": ("i8", "trunci %{0}w", "exti %{0} signed"), "f4E2M1FN": ("f32", "ftof %{0}w", "ftof %{0}")}
"""Sub-byte elements -> the type that carries them in memory, and the operations that convert from it and to it."""


def whole_tiles(family: str, name: str, inputs: Sequence[tuple[str, np.ndarray]], body: str, element: str,
                result: tuple[int, ...], reference: Any, access: str = "static", **more: Any) -> Kernel:  # fmt: skip
    """A kernel of one tile block with one tile per operand."""
    operands = [Operand(n, e, a.shape, a, access) for n, (e, a) in zip("abcde", inputs)]
    stored = result or (1,)
    output = Operand("r" if result else "q", element, stored, np.zeros(stored, DTYPES[element]), access)
    if not result:
        body += f"\n%q = reshape %r : {tile_type((), element)} -> {tile_type((1,), element)}"
    check = reference and (lambda *arrays: [np.asarray(reference(*arrays), DTYPES[element]).reshape(stored)])
    return Kernel(family, name, tuple(operands), body, (output,), (1,), more.pop("ulps", 0), check, **more)


def _in_memory(operand: Operand) -> Operand:
    """The operand as it is loaded or stored; the carrier of %NAME is %NAMEw."""
    if operand.element not in CARRIERS or operand.access == "memory":
        return operand
    return operand._replace(name=f"{operand.name}w", element=CARRIERS[operand.element][0])


def _carried(operand: Operand, inwards: bool) -> list[str]:
    """The conversion between an operand and its carrier, if it has one."""
    if operand.element not in CARRIERS or operand.access == "memory":
        return []
    carrier, load, store = CARRIERS[operand.element]
    types = [tile_type(operand.tile, element) for element in (carrier, operand.element)]
    if inwards:
        return [f"%{operand.name} = {load.format(operand.name)} : {types[0]} -> {types[1]}"]
    return [f"%{operand.name}w = {store.format(operand.name)} : {types[1]} -> {types[0]}"]


BLOCKS = ("%bx", "%by", "%bz")


def zero(element: str) -> str:
    return "0" if is_integer(element) else "0.0"


def _block(dim: int) -> str:
    return BLOCKS[dim] if dim < 3 else "%zero"


def _strides(array: np.ndarray) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


def _view(operand: Operand) -> tuple[list[str], str]:
    """Operations that define %NAME_v, and its type."""
    n, shape, strides = operand.name, operand.array.shape, _strides(operand.array)
    if operand.access == "dynamic":
        sizes = ", ".join(f"%{n}_s{dim}" for dim in range(len(shape)))
        steps = ", ".join([*(f"%{n}_d{dim}" for dim in range(len(shape) - 1)), "1"])
        tensor = f"tensor_view<{'?x' * len(shape)}{operand.element}, strides=[{'?,' * (len(shape) - 1)}1]>"
        text = f"%{n}_t = make_tensor_view %{n}_p, shape = [{sizes}], strides = [{steps}] : tile<i32> -> {tensor}"
    else:
        tensor = f"tensor_view<{'x'.join(map(str, shape))}x{operand.element}, strides=[{','.join(map(str, strides))}]>"
        text = f"%{n}_t = make_tensor_view %{n}_p, shape = {list(shape)}, strides = {strides} : {tensor}"
    padding = f", padding_value = {operand.padding}" if operand.padding else ""
    view = f"partition_view<tile=({'x'.join(map(str, operand.tile))}){padding}, {tensor}>"
    return [text, f"%{n}_v = make_partition_view %{n}_t : {view}"], view


def _pointers(operand: Operand) -> tuple[list[str], bool]:
    """Operations that define the tile of pointers %NAME_a and the mask %NAME_m, and whether a mask exists."""
    n, tile, rank = operand.name, operand.tile, len(operand.tile)
    whole, truth = tile_type(tile, "i32"), tile_type(tile, "i1")
    lines = [f"%{n}_o0 = constant <i32: 0> : {whole}"]
    masks: list[str] = []
    for dim, (size, extent, stride) in enumerate(zip(tile, operand.array.shape, _strides(operand.array))):
        v = f"%{n}_{dim}"
        line = tile_type((size,), "i32")
        spread = tile_type([size if other == dim else 1 for other in range(rank)], "i32")
        lines += [
            f"{v}i = iota : {line}",
            f"{v}n = constant <i32: {size}> : tile<i32>",
            f"{v}f = muli {_block(dim)}, {v}n : tile<i32>",
            f"{v}g = reshape {v}f : tile<i32> -> tile<1xi32>",
            f"{v}h = broadcast {v}g : tile<1xi32> -> {line}",
            f"{v}j = addi {v}i, {v}h : {line}",
            f"{v}k = reshape {v}j : {line} -> {spread}",
            f"{v}l = broadcast {v}k : {spread} -> {whole}",
            f"{v}t = constant <i32: {stride}> : {whole}",
            f"{v}u = muli {v}l, {v}t : {whole}",
            f"%{n}_o{dim + 1} = addi %{n}_o{dim}, {v}u : {whole}",
        ]
        if extent % size:
            lines += [
                f"{v}e = constant <i32: {extent}> : {whole}",
                f"{v}m = cmpi less_than {v}l, {v}e, signed : {whole} -> {truth}",
            ]
            masks.append(f"{v}m")
    pointer = f"ptr<{operand.element}>"
    ones = tile_type([1] * rank, pointer)
    lines += [
        f"%{n}_b = reshape %{n}_p : tile<{pointer}> -> {ones}",
        f"%{n}_c = broadcast %{n}_b : {ones} -> {tile_type(tile, pointer)}",
        f"%{n}_a = offset %{n}_c, %{n}_o{rank} : {tile_type(tile, pointer)}, {whole} -> {tile_type(tile, pointer)}",
    ]
    for number, mask in enumerate(masks):
        previous = f"%{n}_x{number - 1}" if number else mask
        lines.append(f"%{n}_x{number} = andi {previous}, {mask} : {truth}")
    if masks:
        lines.append(f"%{n}_m = andi %{n}_x{len(masks) - 1}, {masks[-1]} : {truth}")
    return lines, bool(masks)


def _load(operand: Operand) -> list[str]:
    n, type_ = operand.name, tile_type(operand.tile, operand.element)
    if operand.access == "memory":
        return []
    if operand.access == "scalar":
        return [f"%{n}, %{n}_k = load_ptr_tko weak %{n}_p : tile<ptr<{operand.element}>> -> {type_}, token"]
    if operand.access == "pointer":
        lines, masked = _pointers(operand)
        pointers = tile_type(operand.tile, f"ptr<{operand.element}>")
        if not masked:
            return [*lines, f"%{n}, %{n}_k = load_ptr_tko weak %{n}_a : {pointers} -> {type_}, token"]
        truth = tile_type(operand.tile, "i1")
        padding = operand.padding if operand.padding not in (None, "zero") else zero(operand.element)
        return [
            *lines,
            f"%{n}_z = constant <{operand.element}: {padding}> : {type_}",
            f"%{n}, %{n}_k = load_ptr_tko weak %{n}_a, %{n}_m, %{n}_z : {pointers}, {truth}, {type_} -> {type_}, token",
        ]
    lines, view = _view(operand)
    indices = ", ".join(_block(dim) for dim in range(len(operand.tile)))
    return [*lines, f"%{n}, %{n}_k = load_view_tko weak %{n}_v[{indices}] : {view}, tile<i32> -> {type_}, token"]


def _store(operand: Operand) -> list[str]:
    n, type_ = operand.name, tile_type(operand.tile, operand.element)
    if operand.access == "memory":
        return []
    if operand.access == "scalar":
        return [f"%{n}_k = store_ptr_tko weak %{n}_p, %{n} : tile<ptr<{operand.element}>>, {type_} -> token"]
    if operand.access == "pointer":
        lines, masked = _pointers(operand)
        mask, truth = (f", %{n}_m", f", {tile_type(operand.tile, 'i1')}") if masked else ("", "")
        pointers = tile_type(operand.tile, f"ptr<{operand.element}>")
        return [*lines, f"%{n}_k = store_ptr_tko weak %{n}_a, %{n}{mask} : {pointers}, {type_}{truth} -> token"]
    lines, view = _view(operand)
    indices = ", ".join(_block(dim) for dim in range(len(operand.tile)))
    return [*lines, f"%{n}_k = store_view_tko weak %{n}, %{n}_v[{indices}] : {type_}, {view}, tile<i32> -> token"]


def _sizes(operand: Operand) -> list[tuple[str, int]]:
    if operand.access != "dynamic":
        return []
    shape, strides = operand.array.shape, _strides(operand.array)[:-1]
    sizes = [(f"%{operand.name}_s{dim}", size) for dim, size in enumerate(shape)]
    return sizes + [(f"%{operand.name}_d{dim}", stride) for dim, stride in enumerate(strides)]


def entry_text(entry: str, kernel: Kernel) -> str:
    parameters, lines = [], ["%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>"]
    lines.append("%bx, %by, %bz = get_tile_block_id : tile<i32>")
    for operand in map(_in_memory, (*kernel.inputs, *kernel.outputs)):
        parameters.append(f"%{operand.name}_p: tile<ptr<{operand.element}>>")
        parameters += [f"{name}: tile<i32>" for name, _ in _sizes(operand)]
    for operand in kernel.inputs:
        lines += _load(_in_memory(operand)) + _carried(operand, True)
    lines += [line.strip() for line in kernel.body.strip().split("\n")]
    for operand in kernel.outputs:
        lines += _carried(operand, False) + _store(_in_memory(operand))
    inner = "".join(f"    {line}\n" for line in [*lines, "return"])
    declared = f"  {kernel.globals_}\n" if kernel.globals_ else ""
    text = f"{declared}  entry @{entry}({', '.join(parameters)}) {{\n{inner}  }}\n"
    return text.replace("$entry", entry)


def module_text(kernels: Sequence[Kernel]) -> str:
    return "cuda_tile.module @m {\n" + "".join(entry_text(f"k{n}", k) for n, k in enumerate(kernels)) + "}\n"


def arguments(kernel: Kernel) -> tuple[list[Any], list[np.ndarray]]:
    """New arrays for all parameters, and the compared ones among them."""
    parameters: list[Any] = []
    compared: list[np.ndarray] = []
    for number, operand in enumerate((*kernel.inputs, *kernel.outputs)):
        array = operand.array.copy()
        parameters += [array, *(value for _, value in _sizes(operand))]
        if number >= len(kernel.inputs):
            compared.append(array)
    return parameters, compared


# ---- comparisons -----------------------------------------------------------------------------------------------------


def distance(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Units in the last place; 0 for two NaNs, infinite for one; for integers and exponents, 0 or infinite."""
    if actual.dtype == DTYPES["f8E8M0FNU"]:
        actual, expected = actual.view(np.uint8), expected.view(np.uint8)
    if actual.dtype.kind in "iub":
        return np.where(actual == expected, 0.0, np.inf)
    bits = 8 * actual.dtype.itemsize

    def ordered(values: np.ndarray) -> np.ndarray:
        whole = np.ascontiguousarray(values).view(f"int{bits}").astype(np.int64)
        # Zeros of either sign are equal here; tests of the operations check the sign.
        return np.where(whole < 0, -(whole & np.int64((1 << (bits - 1)) - 1)), whole)

    with np.errstate(over="ignore", invalid="ignore"):
        nans = [np.isnan(values.astype(np.float64)) for values in (actual, expected)]
        apart = np.abs(ordered(actual).astype(np.float64) - ordered(expected).astype(np.float64))
        apart = np.where(apart < 2**40, np.abs(ordered(actual) - ordered(expected)).astype(np.float64), apart)
    return np.where(nans[0] & nans[1], 0.0, np.where(nans[0] | nans[1], np.inf, apart))


def compare(kernel: Kernel, what: str, actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str | None:
    """None, or the first element outside the tolerance."""
    for operand, got, want in zip(kernel.outputs, actual, expected):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{what}: %{operand.name} is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        apart = distance(got, want)
        wrong = ~(apart <= kernel.ulps)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            same = [o for o in kernel.inputs if o.array.shape == got.shape]
            shown = ", ".join(f"%{o.name} = {o.array[at]}" for o in same)
            return (
                f"{what}: {int(wrong.sum())} of {wrong.size} elements of %{operand.name} differ; at {at} ({shown}):"
                f" {got[at]}, expected {want[at]} ({apart[at]:g} ulps, {kernel.ulps:g} allowed)"
            )
    return None


# ---- runs ------------------------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    """The compared arrays, the printed text, and masks of their undefined elements."""

    arrays: list[np.ndarray]
    printed: str
    undefined: list[np.ndarray | None]


def interpreted(kernel: Kernel) -> tuple[Expected, str | None]:
    parameters, compared = arguments(kernel)
    output = io.StringIO()
    undefined = interpret(module_text([kernel]), "k0", kernel.grid, parameters, output=output)
    masks = [undefined.get(position) for position in _compared_positions(parameters, compared)]
    if kernel.reference is None:
        return Expected(compared, output.getvalue(), masks), None
    with np.errstate(all="ignore"):
        expected = kernel.reference(*(operand.array for operand in kernel.inputs))
    settle(compared, expected, masks)
    wrong = compare(kernel, "interpreter against NumPy", compared, expected)
    # Bounds are distances from the exact result; the interpreter itself may deviate within them.
    return Expected(compared if wrong else list(expected), output.getvalue(), masks), wrong


def _compared_positions(parameters: Sequence[Any], compared: Sequence[np.ndarray]) -> list[int]:
    numbers = {id(parameter): position for position, parameter in enumerate(parameters)}
    return [numbers[id(array)] for array in compared]


def settle(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray], masks: Sequence[np.ndarray | None]) -> None:
    """Undefined elements may have any value: replace those of `arrays` by those of `others`."""
    for array, other, mask in zip(arrays, others, masks):
        if mask is not None:
            array[mask] = other[mask]


MEETINGS = re.compile(r"\b(?:bar|barrier|atom|red|membar|fence|mbarrier|cp\.async)\.|\.(?:acquire|release|volatile)\b")
"""The order of warps matters only where they synchronize, and is random there; other kernels run in lockstep, in a
quarter of the time.  Races are found in any order."""


def _body(ptx: str, name: str) -> str:
    """The text without the entry's name and the target."""
    return re.sub(r"(?m)^(?:\.version|\.target|//).*\n", "", ptx).replace(name, "$entry")


def _is_portable(ptx: str) -> bool:
    """Whether every newer target accepts the text (PTX ISA, `.target`: sm_90a code runs on sm_90 only)."""
    return re.search(r"(?m)^\.target\s+sm_\d+\s*$", ptx) is not None


def _failed(kernel: Kernel, target: str, stage: str, message: str) -> Result:
    return Result(kernel, target, False, False, 0.0, Failure(kernel.family, kernel.name, target, stage, message))


class _Known(NamedTuple):
    """The results of one text: largest distance, and the target that ptxas assembled it for (None: not assembled, or
    not valid for others)."""

    ulps: float
    assembled_for: int | None

    def taken_by(self, number: int) -> bool:
        return self.assembled_for is not None and self.assembled_for <= number


def run_module(
    kernels: Sequence[Kernel], targets: Sequence[str], assembler: str | None, listing: set[str] | None = None
) -> Iterator[Result]:
    """Run all kernels of one module on `targets`; `assembler` is ptxas's path, None to skip assembling.

    Code that is the same for two targets is emulated once, and assembled for the older of them: newer ones accept it
    as well.  The forms of all instructions are added to `listing`.
    """
    expected: list[Expected] = []
    sound: list[Kernel] = []
    for kernel in kernels:
        try:
            outputs, wrong = interpreted(kernel)
        except (CompileError, SimulationError) as error:
            yield _failed(kernel, "", "interpret", str(error))
            continue
        if wrong:
            yield _failed(kernel, "", "interpret", wrong)
        sound.append(kernel)
        expected.append(outputs)
    if not sound:
        return
    module = tileiras.parse(module_text(sound), source_name="kernel.mlir")
    known: dict[tuple[int, str], _Known] = {}
    for target in targets:
        yield from _run_target(sound, module, expected, target, assembler, known, listing)


def _run_target(
    kernels: Sequence[Kernel],
    module: Any,
    expected: list[Expected],
    target: str,
    assembler: str | None,
    known: dict[tuple[int, str], _Known],
    listing: set[str] | None,
) -> Iterator[Result]:
    names = [f"k{number}" for number in range(len(kernels))]
    number = int(target.removeprefix("sm_"))
    try:
        artifact = tileiras.compile(module, gpu_name=target, source_name="kernel.mlir", legalize_types=True)
        texts = [info.artifacts[".ptx"].decode() for info in artifact.kernels]
        keys = [(id(kernel), _body(ptx, name)) for kernel, name, ptx in zip(kernels, names, texts)]
        fresh = [key not in known or not known[key].taken_by(number) for key in keys]
        if assembler is not None and any(fresh):
            ptxas.assemble(ptx_link.link(list(itertools.compress(texts, fresh))), target, ptxas=assembler)
    except CompileError as error:
        if len(kernels) == 1:
            yield _failed(kernels[0], target, "compile", str(error))
            return
        for kernel, outputs in zip(kernels, expected):
            single = tileiras.parse(module_text([kernel]), source_name="kernel.mlir")
            yield from _run_target([kernel], single, [outputs], target, assembler, known, listing)
        return
    if listing is not None:
        listing.update(forms(artifact.text))
    for place, (kernel, key, (arrays, printed, masks)) in enumerate(zip(kernels, keys, expected)):
        assembled = assembler is not None and fresh[place]
        if key in known:
            yield Result(kernel, target, assembled, False, known[key].ulps, None)
            continue
        metadata = json.loads(artifact.kernels[place].artifacts[".json"])
        parameters, compared = arguments(kernel)
        try:
            seed = 0 if MEETINGS.search(texts[place]) else None
            run = emulate(texts[place], names[place], kernel.grid, parameters, metadata=metadata, seed=seed)
        except SimulationError as error:
            yield _failed(kernel, target, "emulate", f"{type(error).__name__}: {error}")
            continue
        settle(compared, arrays, masks)
        wrong = compare(kernel, f"{target} against what is expected", compared, arrays)
        if kernel.prints and run.output != printed:
            wrong = f"{target} printed {run.output!r}, expected {printed!r}"
        if wrong:
            yield _failed(kernel, target, "compare", wrong)
            continue
        worst = max((float(np.max(distance(*pair), initial=0)) for pair in zip(compared, arrays)), default=0.0)
        known[key] = _Known(worst, number if assembled and _is_portable(texts[place]) else None)
        yield Result(kernel, target, assembled, True, worst, None)
