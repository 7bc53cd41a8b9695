"""Properties of every valid module, on random ones: forms read back, passes keep validity and meaning."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kernels.random_tiles import RandomKernel
from tests.kernels.tiles import Tile, kernel_text
from tileiras import bytecode, passes
from tileiras.diagnostics import DiagnosticEngine
from tileiras.driver.tileir_pipeline import tileas_passes
from tileiras.ir import Block, Pass, Region, parse_module, print_op, verify
from tileiras.ir.pass_manager import PassContext, PassManager, parse_pipeline
from tileiras.ir.registry import lookup_operation
from tileiras.sim import interpret
from tileiras.stages import llvm

SEEDS = range(100, 112)
LOWERINGS = ("convert-cudatile-to-tileaa", "convert-tileaa-to-tileas", "convert-tileas-to-llvm")
INSTRUMENTATION = ("instrument-memcheck", "verify-deterministic")
"""Adds checks every time that it runs; refuses modules."""
TILE_PASSES = tuple(
    name for name in passes.names() if not name.startswith("convert-") and name not in INSTRUMENTATION
)
OF_THREADS = tuple(row.name for row in llvm.DECISIONS)
NEEDED_OPTIONS = {"debuginfo-update-symbol-name": {"symbol_to_rename": "k", "new_name": "k"}}


def tile_pass(name: str) -> Pass:
    return passes.lookup_pass(name)(**NEEDED_OPTIONS.get(name, {}))


@cache
def generated(seed: int) -> tuple[str, tuple[Tile, ...], tuple[Tile, ...]]:
    """The text of a random kernel, its inputs, and its outputs: every value that it computes."""
    kernel = RandomKernel.of(seed)
    # Work that is done twice and work that is not used, so that passes find something to do.
    twice = "\n".join(f"%dead{i} = " + line.partition(" = ")[2] for i, line in enumerate(kernel.lines)
                      if "\n" not in line and line.startswith("%v"))  # fmt: skip
    body = "\n".join([*kernel.lines, twice])
    return kernel_text(kernel.inputs, body, kernel.outputs()), tuple(kernel.inputs), tuple(kernel.outputs())


def module(seed: int):
    result = parse_module(generated(seed)[0], "random.mlir")
    verify(result)
    return result


def outcome(seed: int, source: str) -> list[bytes]:
    """The contents of memory after the kernel."""
    _, inputs, outputs = generated(seed)
    results = [tile.array.copy() for tile in outputs]
    interpret(source, "k", 1, [*(tile.array.copy() for tile in inputs), *results])
    return [array.tobytes() for array in results]


@cache
def expected(seed: int) -> list[bytes]:
    return outcome(seed, generated(seed)[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_printed_modules_read_back(seed, generic):
    original = module(seed)
    text = print_op(original, generic=generic, locations=True)
    again = parse_module(text, "again.mlir")
    verify(again)
    # The custom forms leave out where block arguments stand.
    assert print_op(again, generic=True, locations=generic) == print_op(original, generic=True, locations=generic)
    assert print_op(again, generic=generic, locations=True) == text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", [str(version) for version in bytecode.SUPPORTED])
def test_written_modules_read_back(seed, version):
    original = module(seed)
    data = bytecode.write_module(original, bytecode.Version.parse(version))
    again = bytecode.read_module(data, "again.tileirbc")
    verify(again)
    # The format keeps no module name.
    want = print_op(original, generic=True).replace('sym_name = "m"', 'sym_name = "kernels"', 1)
    assert print_op(again, generic=True) == want
    assert bytecode.write_module(again, bytecode.Version.parse(version)) == data


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TILE_PASSES)
@pytest.mark.sampled(200)
def test_passes_keep_validity_and_meaning(seed, name):
    changed = module(seed)
    PassManager([tile_pass(name)], verify_each=False).run(changed)
    verify(changed)
    assert outcome(seed, print_op(changed)) == expected(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_together_keep_meaning_and_come_to_rest(seed):
    changed = module(seed)
    together = [tile_pass(name) for name in TILE_PASSES]
    PassManager(together).run(changed)
    assert outcome(seed, print_op(changed)) == expected(seed)
    before = print_op(changed)
    PassManager(together).run(changed)
    assert print_op(changed) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_lowered_modules_verify_and_read_back(seed):
    inner = module(seed)
    top = lookup_operation("builtin.module").create((), (), {}, [Region([Block()])], (), inner.location)
    top.regions[0].block.append(inner)
    first = f"{LOWERINGS[0]}{{compute-capability=sm_90}}"
    for name in (first, "tileas{to=dce}", "tileas{from=tileas-lower-occupancy}", LOWERINGS[-1]):
        engine = DiagnosticEngine()
        manager = PassManager(parse_pipeline(name, passes.lookup_pass, {"tileas": tileas_passes}), verify_each=False)
        manager.run(top, PassContext(engine))
        verify(top)
        text = print_op(top)
        assert print_op(parse_module(text, "lowered.mlir")) == text
        assert print_op(parse_module(print_op(top, generic=True), "lowered.mlir")) == text


def test_every_pass_is_covered():
    conversions = [name for name in passes.names() if name.startswith("convert-") and name not in LOWERINGS]
    # They find nothing in tiles: `tests/lowering/test_passes_by_text.py` has programs for them.
    assert set(conversions) <= {*OF_THREADS, "convert-debuginfo-to-llvm"}
    assert sorted([*TILE_PASSES, *LOWERINGS, *INSTRUMENTATION, *conversions]) == passes.names()
