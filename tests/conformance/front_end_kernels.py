"""Kernels of the cuTile Python front end, at every bytecode version and target: interpreted and emulated.

    python tests/conformance/front_end_kernels.py [--versions V,...] [--targets T,...] [--num-ctas N,...] [KERNEL...]

The kernels are those of `tests/bytecode/kernels.py`, which cover every operation that the front end emits.  Each is
exported at each version, interpreted, compiled for each target and number of CTAs, emulated and compared; code that is
the same for two targets or versions is emulated once.  Refusals are listed with their reasons.  Exits with 1 if a
kernel differed or failed, with 2 without the front end.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import tileiras  # noqa: E402
from tests.kernels.tiles import assert_same  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim import Memory, emulate, interpret  # noqa: E402

VERSIONS = ("13.1", "13.2", "13.3", "13.4")
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")

DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "u32": np.uint32, "i64": np.int64,
    "u64": np.uint64, "bool": np.bool_,
}  # fmt: skip


class Launch(NamedTuple):
    """Sizes of the arrays and values of the scalars in the order of the kernel's parameters."""

    sizes: list
    grid: Any = 1
    ulps: float = 0
    """Tolerance of results: library functions and reordered sums are not exact."""
    indices: int = -1
    """The parameter that holds indices into the others: a permutation of the valid ones."""


LAUNCHES = {
    "vector_add_f32": Launch([(2000,)] * 3, 2),
    "vector_add_f64": Launch([(300,)] * 3, 2),
    "vector_add_u8": Launch([(304,)] * 3, 2),
    "vector_add_fixed": Launch([(4096,)] * 3, 2),
    "softmax_f16": Launch([(2, 400)] * 2, 2, 2),
    "softmax_f64": Launch([(3, 50)] * 2, 3, 16),
    "matmul_f16": Launch([(100, 70), (70, 90), (100, 90)], (1, 1), 1),
    "matmul_f32": Launch([(40, 20), (20, 33), (40, 33)], (2, 2), 16),
    "matmul_tf32": Launch([(40, 20), (20, 33), (40, 33)], (2, 2), 32),
    "matmul_f8": Launch([(40, 64), (64, 33), (40, 33)], (2, 2), 32),
    "matmul_i8": Launch([(32, 32)] * 3),
    "integers_i32": Launch([(128,)] * 3),
    "integers_i64": Launch([(128,)] * 3),
    "unsigned_u32": Launch([(128,)] * 2),
    "floats_f32": Launch([(4, 64)] * 2, 1, 64),
    "floats_f64": Launch([(4, 64)] * 2, 1, 64),
    "modes_f32": Launch([(64,)] * 2, 1, 16),
    "conversions": Launch([(64,)] * 4),
    "shapes": Launch([(16, 32), (16, 16)], 1, 16),
    "reductions_f32": Launch([(16, 32), (16,), (16,)], 1, 16),
    "reductions_i64": Launch([(16, 32), (16,), (16,)]),
    "gather": Launch([(64,), (64,), (64,)], indices=1),
    "control_flow": Launch([(64,), (64,), 9, 4]),
    "atomics": Launch([(64,), (64,), (64,)], indices=1),
    "debugging": Launch([(8,), 42]),
    "grid": Launch([(4,)]),
    "hints": Launch([(64,)] * 2),
    "constants": Launch([(8,)] * 2),
    "strided": Launch([(7, 20), (4, 8)]),
    "sparse": Launch([(64, 24), (64,), (64, 16), 12], indices=1),
    "view_atomics": Launch([(4, 8)] * 2),
    "bytes_and_slots": Launch([(16,)] * 2),
    "scaled": Launch([(64, 64), (64, 2), (64, 64), (2, 64), (64, 64)], 1, 64),
    "dependent_grid": Launch([(16,)]),
    "calls": Launch([(16,)] * 2, 1, 16),
    "batched": Launch([(2, 16, 16)] * 3, 1, 16),
    "ordered": Launch([(4,), (8,)]),
    "tables": Launch([[(16,), (16,), (16,)], 3, (16,)]),
    "more_math": Launch([(16,)] * 3, 1, 64),
    "remainders": Launch([(16,)] * 3, 1, 64),
    "roundings": Launch([(16,)] * 4),
    "scale_formats": Launch([(16,), (16,), (16,), (8,)]),
    "small_floats": Launch([(16,)] * 3),
    "leaving": Launch([(8,), 5]),
    "leaving_early": Launch([(64,), 6, 4]),
    "combiners": Launch([(8, 16), (8,), (8, 16)]),
    "more_atomics": Launch([(64,)] * 5, indices=3),
    "more_view_atomics": Launch([(8, 8), (8, 8), (4, 8)]),
    "accesses": Launch([(48,), (16,), (48,)], indices=1),
    "transposed": Launch([(8, 8), (8, 4)]),
    "hints_by_target": Launch([(64,)] * 2, 1, 16),
    "promises": Launch([(48,), (16,), 48], 1, 16),
    "wide_integers_u64": Launch([(32,)] * 2),
    "wide_integers_i16": Launch([(32,)] * 2),
    "wide_integers_i8": Launch([(32,)] * 2),
    "printing": Launch([(4,), 7]),
}
NOT_RUN = {"unsigned_scales": "no target and no dtype has fnv8E5M3FNU"}


def load_corpus() -> ModuleType:
    """`tests/bytecode/kernels.py`; raises ImportError without the front end."""
    spec = importlib.util.spec_from_file_location("front_end_kernels", HERE.parent / "bytecode" / "kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_array(element: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[element])
    if dtype.kind in "iu":
        return generator.integers(0 if dtype.kind == "u" else -60, 60, shape).astype(dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.uniform(0.25, 2, shape).astype(dtype)


def arguments_of(corpus: ModuleType, name: str, memory: list[Memory]) -> list[Any]:
    """Arrays as the front end passes them: with their shape and strides; lists as tables of such rows.

    `memory` keeps the arrays of lists alive, whose addresses the tables contain.
    """
    _, _, *parameters = corpus.EXPORTS[name]
    launch = LAUNCHES[name]
    arguments: list[Any] = []
    for number, (parameter, size) in enumerate(zip(parameters, launch.sizes)):
        if isinstance(size, int):
            arguments.append(size)
            continue
        if isinstance(size, list):
            rows = Memory()
            memory.append(rows)
            arrays = [random_array("f32", shape, seed) for seed, shape in enumerate(size)]
            table = [[rows.allocate(array), *array.shape, *strides(array)] for array in arrays]
            arguments += [np.array(table, np.int64), len(arrays)]
            continue
        array = random_array(parameter.partition("[")[0], size, number)
        if name.startswith("integers"):
            array[array == 0] = 7  # a divisor
        if number == launch.indices:
            array = np.random.default_rng(5).permutation(size[0]).astype(np.int32)
        arguments += [array, *size, *strides(array)]
    return arguments


def strides(array: np.ndarray) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


def _copied(arguments: list[Any]) -> list[Any]:
    return [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]


class Case:
    """A kernel at one bytecode version: the interpreter's result, and emulations by code."""

    def __init__(self, corpus: ModuleType, name: str, version: str) -> None:
        self.name = name
        self.bytecode = corpus.export(name, version)
        self.memory: list[Memory] = []
        self.arguments = arguments_of(corpus, name, self.memory)
        self.expected = _copied(self.arguments)
        output = io.StringIO()
        interpret(self.bytecode, name, LAUNCHES[name].grid, self.expected, output=output)
        self.printed = output.getvalue()

    def compile(self, target: str, num_ctas: int | None = None) -> tuple[str, Any]:
        """PTX and metadata.  Raises CompileError where the target refuses the kernel."""
        artifact = tileiras.compile(self.bytecode, gpu_name=target, source_name=self.name, num_ctas=num_ctas)
        return artifact.text, json.loads(artifact.kernels[0].artifacts[".json"])

    def check(self, ptx: str, metadata: Any) -> None:
        """Raise AssertionError if the code's result differs from the interpreter's."""
        launch = LAUNCHES[self.name]
        actual = _copied(self.arguments)
        result = emulate(ptx, self.name, launch.grid, actual, metadata=metadata)
        for position, (want, got) in enumerate(zip(self.expected, actual)):
            if isinstance(want, np.ndarray):
                assert_same(f"argument {position}", got, want, [], launch.ulps)
        assert result.output == self.printed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=list(LAUNCHES))
    parser.add_argument("--versions", type=lambda text: text.split(","), default=VERSIONS)
    parser.add_argument("--targets", type=lambda text: text.split(","), default=TARGETS)
    parser.add_argument(
        "--num-ctas", type=lambda text: [int(each) for each in text.split(",")], default=[None],
        help="CTAs of a tile block, instead of what each kernel hints",
    )  # fmt: skip
    options = parser.parse_args(argv)
    try:
        corpus = load_corpus()
    except ImportError as missing:
        print(f"the cuTile Python front end is not installed: {missing}", file=sys.stderr)
        return 2
    counts: Counter[str] = Counter()
    refused: dict[str, set[str]] = {}
    started = time.time()
    for name in options.kernels:
        seen: set[str] = set()
        for version in options.versions:
            if version < corpus.EXPORTS[name][1]:
                continue
            case = Case(corpus, name, version)
            counts["files"] += 1
            for target, num_ctas in product(options.targets, options.num_ctas):
                try:
                    ptx, metadata = case.compile(target, num_ctas)
                except CompileError as error:
                    counts["refused"] += 1
                    refused.setdefault(f"{name}: {error.diagnostics[0].message}", set()).add(target)
                    continue
                counts["compiled"] += 1
                # Otherwise equal code of two targets differs in its header only.
                body = ptx[ptx.index(".address_size") :]
                if body in seen:
                    continue
                seen.add(body)
                counts["emulated"] += 1
                try:
                    case.check(ptx, metadata)
                except Exception as error:  # noqa: BLE001  Any failure is this kernel's result.
                    counts["failed"] += 1
                    ctas = "" if num_ctas is None else f" num-ctas={num_ctas}"
                    print(f"{name} {version} {target}{ctas}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    for reason, targets in refused.items():
        print(f"refused  {reason} ({', '.join(sorted(targets))})")
    figures = ", ".join(f"{counts[what]} {what}" for what in ("files", "compiled", "emulated", "refused", "failed"))
    print(f"{len(options.kernels)} kernels: {figures}; {time.time() - started:.0f} s")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
