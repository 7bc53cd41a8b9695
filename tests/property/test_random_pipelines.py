"""Random pipelines are right: passes on cuda_tile in any order, a random part of the optional decisions of TileAS, the
lowering with and without its optional passes, and indices of both widths; executed, against the expected results."""

from __future__ import annotations

import random

import pytest

from tests.kernels import dots, rows
from tests.kernels.random_products import drawn
from tests.kernels.views import Kernel
from tileiras.ir import PassManager, parse_module, print_op
from tileiras.passes import lookup_pass
from tileiras.stages import llvm, tileas

FRONT = ("canonicalize", "cse", "dce", "loop-split")
OTHERS = (
    lambda: dots.attention_like(1, rows=32, columns=32), rows.row_sums_of_powers, rows.centered_rows,
    rows.running_sums, rows.gathered, rows.exchanged, rows.scaled_by_squares,
)  # fmt: skip


class Drawn:
    """A kernel, a target with options, and the passes that run."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        kernel, self.gpu_name, self.options = drawn(seed)
        if choose.random() < 0.4:
            kernel = choose.choice(OTHERS)()
        self.front = [choose.choice(FRONT) for _ in range(choose.randrange(4))]
        module = parse_module(kernel.text)
        PassManager([lookup_pass(name)() for name in self.front]).run(module)
        self.kernel: Kernel = kernel._replace(text=print_op(module))
        self.options["index_bitwidth"] = choose.choice((0, 32, 64))
        # A prefix of the optional decisions, or any part of them.
        optional = [row for row in tileas.DECISIONS if row.optional]
        first = choose.randrange(len(optional) + 1)
        share = choose.choice((0.0, 0.2, 0.6))
        self.left_out = {
            id(row) for number, row in enumerate(optional) if number >= first or choose.random() < share
        }  # fmt: skip
        self.lowering = tuple(
            row for row in llvm.DECISIONS if not lookup_pass(row.name).optional or choose.random() < 0.5
        )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(60))
def test_random_pipelines_compute_the_expected(seed, monkeypatch):
    case = Drawn(seed)
    monkeypatch.setattr(tileas, "_left_out", lambda options: case.left_out)
    monkeypatch.setattr(llvm, "DECISIONS", case.lowering)
    case.kernel.emulated(case.kernel.compiled(case.gpu_name, emit="ptx", **case.options))


def test_the_drawn_pipelines_differ(monkeypatch):
    kernel = dots.matmul((64, 64, 32))
    plain = kernel.compiled("sm_90", emit="tileas").text
    monkeypatch.setattr(tileas, "_left_out", lambda options: {id(row) for row in tileas.DECISIONS if row.optional})
    assert kernel.compiled("sm_90", emit="tileas").text != plain
    assert len({tuple(sorted(Drawn(seed).left_out)) for seed in range(8)}) > 6
