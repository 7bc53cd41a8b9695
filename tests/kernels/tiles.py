"""Small kernels made of a list of operations, run by the interpreter and, compiled, by the emulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import tileiras
from tests.kernels.views import DTYPES, View, entry, tile_type
from tileiras import runtime
from tileiras.codegen import ptxas, toolkit
from tileiras.sim import emulate, interpret
from tileiras.targets.cpu import is_cpu


class Tile(NamedTuple):
    """A tile that a kernel reads from or writes to memory: its name without %, element type and array."""

    name: str
    element: str
    array: np.ndarray

    @property
    def type(self) -> str:
        return tile_type(self.array.shape, self.element)


def kernel_text(inputs: list[Tile], body: str, outputs: list[Tile]) -> str:
    """A module with entry @k: loads every input as %name, runs `body`, stores every output from %name."""
    views = {
        tile.name: View(tile.name, tile.array.shape, tile.element, aligned=None) for tile in (*inputs, *outputs)
    }
    lines = [views[tile.name].load(tile.name) for tile in inputs]
    lines.append(body)
    lines += [views[tile.name].store(tile.name) for tile in outputs]
    return entry(list(views.values()), lines)


def compiled(text: str, gpu_name: str, **options):
    """The artifact of a module, assembled where ptxas is installed, and each entry's launch description."""
    artifact = tileiras.compile(text, gpu_name=gpu_name, source_name="kernel.mlir", **options)
    assembler = toolkit.find_program("ptxas")
    if assembler is not None:
        ptxas.assemble(artifact.text, gpu_name, ptxas=assembler)
    return artifact, {kernel.name: json.loads(kernel.artifacts[".json"]) for kernel in artifact.kernels}


def own_code(text: str, gpu_name: str, **options) -> tuple[str, dict | None]:
    """The PTX of a module with one kernel, and its launch description."""
    artifact = tileiras.compile(text, gpu_name=gpu_name, source_name="kernel.mlir", **options)
    return artifact.text, json.loads(artifact.kernels[0].artifacts[".json"])


def execute(
    text: str, arguments: Sequence, gpu_name: str, code: Callable[..., tuple[str, dict | None]] = own_code,
    grid: int = 1, **options,
) -> None:  # fmt: skip
    """Run @k on arrays, in place: the PTX that `code` makes in the emulator, an object for a CPU in this process."""
    if is_cpu(gpu_name):
        artifact = tileiras.compile(text, gpu_name=gpu_name, source_name="kernel.mlir", **options)
        runtime.launch(artifact, "k", grid, arguments, threads=1)
        return
    ptx, metadata = code(text, gpu_name, **options)
    emulate(ptx, "k", grid, arguments, metadata=metadata)


def run_both(
    inputs: list[Tile],
    body: str,
    outputs: list[Tile],
    gpu_name: str = "sm_80",
    random_runs: int = 1,
    code: Callable[..., tuple[str, dict | None]] = own_code,
    **options,
):
    """The outputs of the interpreter and those of the kernel that `code` compiles: two lists of arrays.

    Undefined elements may have any value: both lists have the interpreter's.
    """
    text = kernel_text(inputs, body, outputs)
    expected = [tile.array.copy() for tile in outputs]
    undefined = interpret(text, "k", 1, [*(tile.array.copy() for tile in inputs), *expected], random_runs=random_runs)
    actual = [tile.array.copy() for tile in outputs]
    execute(text, [*(tile.array.copy() for tile in inputs), *actual], gpu_name, code, **options)
    for position, where in undefined.items():
        if position >= len(inputs):
            number = position - len(inputs)
            actual[number][where] = expected[number][where]
    return expected, actual


def distance(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Units in the last place between two float arrays of one type; 0 for two NaNs, infinite for one."""
    width = 8 * actual.dtype.itemsize

    def ordered(values):
        bits = np.ascontiguousarray(values).view(f"int{width}").astype(object)
        return np.where(bits < 0, -(1 << (width - 1)) - bits, bits)

    nan = np.isnan(actual.astype(np.float64)), np.isnan(expected.astype(np.float64))
    apart = np.abs(ordered(actual) - ordered(expected)).astype(np.float64)
    return np.where(nan[0] & nan[1], 0.0, np.where(nan[0] | nan[1], np.inf, apart))


def assert_same(name: str, actual: np.ndarray, expected: np.ndarray, inputs: list[Tile], ulps: float = 0) -> None:
    """Integers equal, floats within `ulps` (with equal zeros' signs when 0); shows the first difference's operands."""
    if actual.dtype.kind in "iub":
        wrong = actual != expected
    else:
        wrong = distance(actual, expected) > ulps
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        operands = ", ".join(f"%{t.name} = {t.array[at]}" for t in inputs if t.array.shape == actual.shape)
        raise AssertionError(
            f"{name}: {int(wrong.sum())} of {wrong.size} elements differ; at {at} ({operands}):"
            f" compiled {actual[at]}, interpreted {expected[at]}"
        )


def check(body: str, inputs: list[Tile], result: tuple[Sequence[int], str], ulps: float = 0, **options) -> None:
    """The compiled `body` computes the interpreter's %r, a tile of (shape, element type)."""
    shape, element = result
    output = Tile("r", element, np.zeros(shape, DTYPES[element]))
    expected, actual = run_both(inputs, body, [output], **options)
    assert_same(body.strip().split("\n")[-1].strip(), actual[0], expected[0], inputs, ulps)


def run(text: str, grid: int, arguments: Sequence, gpu_name: str = "sm_80", **options) -> list:
    """Run @k on copies of the arguments both ways; every array must be the same.  Returns the interpreted copies."""
    expected, actual = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    undefined = interpret(text, "k", grid, expected)
    execute(text, actual, gpu_name, grid=grid, **options)
    for position, (want, got) in enumerate(zip(expected, actual)):
        if isinstance(want, np.ndarray):
            if position in undefined:
                got[undefined[position]] = want[undefined[position]]
            assert_same(f"argument {position}", got, want, [])
    return expected
