"""Kernels of the library at the boundaries of stages, as text that a person reads in a review.

    python tests/goldens/goldens.py

writes the files anew; their differences are the effect of a change of the compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.kernels import dots, rows  # noqa: E402
from tests.kernels.views import Kernel  # noqa: E402


class Golden(NamedTuple):
    """A kernel, its target, and the stages whose artifacts are shown."""

    kernel: Callable[[], Kernel]
    gpu_name: str
    stages: tuple[str, ...]


GOLDENS = {
    "fused_multiply_add": Golden(rows.fused_multiply_add, "sm_90", ("tileaa", "tileas", "llvm")),
    "gathered": Golden(rows.gathered, "sm_90", ("tileaa", "tileas")),
    "matmul": Golden(lambda: dots.matmul((64, 64, 32), steps=4), "sm_80", ("tileaa", "tileas")),
    "row_sums_of_powers": Golden(rows.row_sums_of_powers, "sm_90", ("tileaa", "tileas")),
    "running_sums": Golden(rows.running_sums, "sm_120", ("tileas",)),
}


def path(name: str, stage: str) -> Path:
    return HERE / f"{name}.{GOLDENS[name].gpu_name}.{stage}.mlir.golden"


def artifact(name: str, stage: str) -> str:
    """The text of a kernel after a stage; options are the defaults."""
    golden = GOLDENS[name]
    return golden.kernel().compiled(golden.gpu_name, emit=stage).text


def cases() -> Iterator[tuple[str, str]]:
    for name, golden in GOLDENS.items():
        for stage in golden.stages:
            yield name, stage


def main() -> None:
    for old in HERE.glob("*.golden"):
        old.unlink()
    for name, stage in cases():
        path(name, stage).write_text(artifact(name, stage), encoding="utf-8")


if __name__ == "__main__":
    main()
