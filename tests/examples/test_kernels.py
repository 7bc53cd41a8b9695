"""Whole kernels: interpreted, compiled, assembled and emulated, each against NumPy."""

from __future__ import annotations

import pytest
from kernel_cases import CASES, KERNELS, TARGETS, KernelCase
from kernel_runs import body, bytecode, compiled, needs_front_end, run_and_check

from tileiras.codegen import ptxas, toolkit
from tileiras.sim import emulate, interpret


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_kernel_interprets(case: KernelCase) -> None:
    needs_front_end(case.source)
    source = bytecode(case.source, case.targets[-1])
    run_and_check(case, lambda arguments: interpret(source, case.entry, case.grid, arguments))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_kernel_emulates(case: KernelCase) -> None:
    """On every target whose code differs from that of the targets before it."""
    needs_front_end(case.source)
    seen = set()
    for target in case.targets:
        text, metadata = compiled(case.source, target)[case.entry]
        if body(text) not in seen:
            seen.add(body(text))
            run_and_check(case, lambda arguments: emulate(text, case.entry, case.grid, arguments, metadata=metadata))


@pytest.mark.sampled(30)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", sorted({case.source for case in CASES}))
def test_kernel_assembles(source: str, target: str) -> None:
    needs_front_end(source)
    if toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    if not any(target in case.targets for case in CASES if case.source == source):
        pytest.skip(f"{target} has not these element types")
    for text, _ in compiled(source, target).values():
        assert ptxas.assemble(text, target).cubin.startswith(b"\x7fELF")


def test_every_kernel_has_a_case() -> None:
    """Each file of the folder, and each entry that it exports."""
    sources = sorted(path.name for path in KERNELS.iterdir() if path.suffix in (".py", ".mlir"))
    assert sources == sorted({case.source for case in CASES})
    for source in sources:
        needs_front_end(source)
        entries = compiled(source, "sm_120")
        assert sorted(entries) == sorted({case.entry for case in CASES if case.source == source})
