"""How the whole kernels of the examples are compiled, run and compared."""

from __future__ import annotations

import copy
import functools
import json
import re

import pytest
from kernel_cases import KERNELS, KernelCase

import tileiras


def needs_front_end(source: str) -> None:
    if source.endswith(".py"):
        pytest.importorskip("cuda.tile", reason="cuTile Python kernels need the package cuda-tile")


@functools.cache
def bytecode(source: str, target: str) -> bytes:
    return tileiras.compile(KERNELS / source, gpu_name=target, emit="bytecode").data


@functools.cache
def compiled(source: str, target: str) -> dict[str, tuple[str, dict]]:
    """PTX and launch description by entry."""
    artifact = tileiras.compile(bytecode(source, target), gpu_name=target, source_name=source)
    return {
        kernel.name: (kernel.artifacts[".ptx"].decode(), json.loads(kernel.artifacts[".json"]))
        for kernel in artifact.kernels
    }


def body(ptx: str) -> str:
    """The text without the directives that name the target."""
    return re.sub(r"^\.(version|target).*$", "", ptx, flags=re.MULTILINE)


def run_and_check(case: KernelCase, launch) -> None:
    values = case.make_values()
    before = copy.deepcopy(values)
    expected = case.expected(copy.deepcopy(values))
    launch(case.slots(values))
    case.check(values, expected, before)
