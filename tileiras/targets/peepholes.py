"""Peepholes of the NVPTX layer: patterns that LLVM 22 and ptxas leave, each with the targets that it is rewritten for.

`codegen.target_machine` selects the rows of a target when it makes the machine, and caches both together; the rewrites
are in `codegen.peepholes`, a file each, and the pass `nvptx-peepholes` applies them to operations of the llvm dialect.
"""

from __future__ import annotations

import re

from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.requirements import admits


class Peephole(NamedTuple):
    """A row; `saves` has the instructions of main loops of `examples/` without and with it (ptxas 13.0)."""

    name: str
    matches: tuple[str, ...]
    """Names of the operations that the rewrite looks at."""
    chips: str
    """The chips that the row is for, in the notation of `targets.requirements`."""
    ptx: tuple[int, int]
    """The least PTX version, which the features state."""
    saves: str
    registers: int = 0
    """Code of threads with no more registers than this stays as it is: of agents, or for the CTAs of an SM."""

    def holds(self, chip: str, ptx: tuple[int, int]) -> bool:
        """Whether a chip and the PTX version of its features satisfy the predicate."""
        return ptx >= self.ptx and admits(self.chips, chip)


TABLE: tuple[Peephole, ...] = (
    Peephole("invariant-address", ("llvm.getelementptr",), "75", (6, 3),
             "matmul_f16 105 to 99, moe_matmul 142 to 119 (sm_90)", registers=64),
    Peephole("narrow-comparison", ("llvm.icmp",), "75", (6, 3), "conv2d 114 to 90 (sm_90)"),
    Peephole("predicated-count", ("llvm.add",), "75", (6, 3), "histogram 305 to 220 (sm_90)"),
)  # fmt: skip
"""The rows, in the order in which they are tried on an operation."""


def select(chip: str, features: str) -> tuple[Peephole, ...]:
    """The rows whose predicate holds for a chip with LLVM's features, such as `+ptx78`."""
    versions = [(int(digits[:-1]), int(digits[-1])) for digits in re.findall(r"\+ptx(\d+)", features)]
    return tuple(row for row in TABLE if row.holds(chip, max(versions, default=(0, 0))))
