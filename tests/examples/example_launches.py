"""Launches of the examples by kernel, compiled for a target with options: a test that changes the code of a kernel
runs all its launches."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import example_cases
import kernel_cases
import numpy as np
from kernel_cases import BF16, F8E4M3, F8E5M2, F16, F32, I8, I32, U8, normal, unset, whole

import tileiras
from tileiras.sim import EmulationError, emulate

STEP_LIMIT = 2_000_000
"""Instructions of warps, several times the maximum of any launch: changed code may deadlock."""
SEEDS = (None, 0, 1)
"""Lock step, and orders of warps; with these another lane is elected as well."""


class Launch(NamedTuple):
    """PTX, and `run(ptx, seed)`, which raises where PTX that takes its place does something wrong.

    A kernel with an entry for pairs of tile blocks is started by a launcher that makes clusters, and by one that makes
    none.
    """

    ptx: str
    run: Callable[[str, int | None], None]


class Entry(NamedTuple):
    """One PTX text and its launches."""

    ptx: str
    launches: list[Launch]


def longer() -> list[kernel_cases.KernelCase]:
    """Launches in which every loop of a product or of attention comes to each stage of a ring more than once."""
    result, depth = kernel_cases._matmul, 400

    def batched(g: np.random.Generator) -> list:
        return [whole(g, (3, 40, depth), F16), whole(g, (3, depth, 24), F16), unset((3, 40, 24), F16)]

    def moe(g: np.random.Generator) -> list:
        tokens, _, order, experts, out = kernel_cases._moe(g)
        return [whole(g, (len(tokens), depth), F16, -3, 3), whole(g, (3, depth, 48), F16, -3, 3), order, experts, out]

    def scores(g: np.random.Generator) -> list:
        q, k, v = (normal(g, (2, count, 32), F16) for count in (40, 300, 300))
        return [q, k, v, unset((2, 40, 32), F16), np.float32(32**-0.5)]

    return [
        result("matmul_f16_f16", F16, F16, F16, (70, depth, 48), (64, 32)),
        result("matmul_bf16", BF16, BF16, F32, (100, depth, 72), (64, 64)),
        result("matmul_f32", F32, F32, F32, (33, 150, 50), (16, 32)),
        result("matmul_tf32", F32, F32, F32, (40, depth, 44), (32, 32)),
        result("matmul_i8", I8, I8, I32, (40, depth, 48), (32, 32)),
        result("matmul_u8", U8, U8, I32, (40, depth, 48), (32, 64)),
        result("matmul_f8e4m3fn", F8E4M3, F8E4M3, F32, (40, depth, 48), (32, 32), "matmul_f8.py"),
        result("matmul_f8e5m2_f16", F8E5M2, F8E5M2, F16, (40, 1040, 80), (32, 64), "matmul_f8.py"),
        kernel_cases.KernelCase("matmul_scaled.py", "matmul_scaled_nvf4", (2, 1),
                                kernel_cases._scaled_f4(F8E4M3, 16, (33, 640, 64)), (4,),
                                targets=kernel_cases.SCALED_TARGETS),
        kernel_cases.KernelCase("matmul_batched.py", "matmul_batched", (2, 2, 2), batched, (2,)),
        kernel_cases.KernelCase("moe_matmul.py", "moe_matmul", (4, 2), moe, (4,)),
        kernel_cases.KernelCase("attention.py", "attention", (2, 2), scores, (3,), ulps=4, scale=0.5),
    ]  # fmt: skip


LONGER = longer()
LONGER_EXAMPLES = [example_cases._matmul_f16(136, 72, 520), example_cases._matmul_f32(40, 50, 150)]


def cases(more: bool = False) -> dict[str, list[example_cases.Case | kernel_cases.KernelCase]]:
    """Of every entry; the examples' bytecode is the same kernels again.  With `more`, `longer` ones as well, before the
    others."""
    result: dict[str, list[example_cases.Case | kernel_cases.KernelCase]] = {}
    added = [*LONGER_EXAMPLES, *LONGER] if more else []
    for case in [*added, *example_cases.CASES, *kernel_cases.CASES]:
        if not case.source.startswith("bytecode/"):
            result.setdefault(f"{case.source}:{case.entry}", []).append(case)
    return result


@functools.cache
def _artifact(path: Path, entry: str, options: tuple[tuple[str, str], ...]) -> tileiras.Artifact:
    return tileiras.compile(path, entry=entry, **dict(options))


def launch(case: example_cases.Case | kernel_cases.KernelCase, **options: str) -> Launch:
    """A case, compiled with options of `tileiras.compile`."""
    artifact = _artifact(case.path, case.entry, tuple(sorted(options.items())))
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    launchers = [metadata]
    if any("pairs" in kernel for kernel in metadata["kernels"]):
        alone = [{name: value for name, value in kernel.items() if name != "pairs"} for kernel in metadata["kernels"]]
        launchers.append({**metadata, "kernels": alone})
    is_example = isinstance(case, example_cases.Case)
    values = case.make_arguments() if is_example else case.make_values()
    expected = case.reference(copy.deepcopy(values)) if is_example else case.expected(copy.deepcopy(values))

    def run(ptx: str, seed: int | None) -> None:
        for described in launchers:
            started(ptx, seed, described)

    def started(ptx: str, seed: int | None, described: dict[str, Any]) -> None:
        arguments = copy.deepcopy(values)
        slots = arguments if is_example else case.slots(arguments)
        result = emulate(ptx, case.entry, case.grid, slots, metadata=described, seed=seed, step_limit=STEP_LIMIT,
                         leader=0 if seed is None else 5)  # fmt: skip
        assert result.searched_races
        if not is_example:
            case.check(arguments, expected, values)
            return
        for position, wanted in expected.items():
            example_cases.check(arguments[position], wanted, case.ulps)

    return Launch(artifact.text, run)


def entry_of(made: Sequence[Launch]) -> Entry:
    """Launches of one text."""
    (ptx,) = {each.ptx for each in made}
    return Entry(ptx, list(made))


def survives(entry: Entry, ptx: str, seeds: Sequence[int | None] = SEEDS) -> bool:
    """Whether changed code still computes the expected results in every launch, in lock step and in random orders."""
    for seed in seeds:
        for each in entry.launches:
            try:
                each.run(ptx, seed)
            except (EmulationError, AssertionError):
                return False
    return True
