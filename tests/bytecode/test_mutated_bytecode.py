"""Damaged files are refused with a place, or read; never a traceback, and never work out of proportion to the input."""

import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile")
sys.path.insert(0, str(Path(__file__).parent))

import kernels  # noqa: E402

from tileiras import bytecode  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.ir import BytecodeLoc, print_op, verify  # noqa: E402

SEEDS = range(8)
MUTATIONS_PER_SEED = 60
BYTES = (0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF)


@pytest.fixture(scope="module")
def files():
    names = ("matmul_f16", "control_flow", "reductions_f32", "atomics", "calls", "strided")
    return [kernels.export(name, version) for name in names for version in ("13.1", "13.4") if version >= since(name)]


def since(name):
    return kernels.EXPORTS[name][1]


def mutated(data, rng):
    data = bytearray(data)
    kind = rng.randrange(10)
    if kind < 6:
        for _ in range(rng.choice((1, 1, 2, 4))):
            data[rng.randrange(8, len(data))] = rng.choice((*BYTES, rng.randrange(256)))
    elif kind < 7:
        del data[rng.randrange(len(data)) :]
    elif kind < 9:
        at = rng.randrange(12, len(data))
        data[at:at] = rng.randbytes(rng.choice((1, 2, 8)))
    else:
        at = rng.randrange(12, len(data))
        del data[at : at + rng.choice((1, 2, 8))]
    return bytes(data)


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_files_are_refused_or_read(files, seed):
    rng = random.Random(seed)
    outcomes = set()
    for _ in range(MUTATIONS_PER_SEED):
        data = mutated(rng.choice(files), rng)
        try:
            module = bytecode.read_module(data, "k.tileirbc")
        except CompileError as error:
            (diagnostic,) = error.diagnostics
            assert isinstance(diagnostic.location, BytecodeLoc)
            assert 0 <= diagnostic.location.offset <= len(data)
            assert error.code == 3
            outcomes.add("refused")
            continue
        try:
            verify(module)
        except CompileError as error:
            assert all(diagnostic.location is not None for diagnostic in error.diagnostics)
            continue
        assert print_op(module)
        outcomes.add("read")
    assert outcomes == {"refused", "read"}
