import re

import pytest
from intrinsic_kernels import by_target, declare, kernel, lowest_chip

from tileiras.codegen import admission, llvm_pipeline
from tileiras.codegen import ptxas as assembler
from tileiras.codegen.target_machine import PROCESSORS, PTXRequirement, processor
from tileiras.diagnostics import CompileError
from tileiras.dialects.nvvm.intrinsics import EFFECTS, INTRINSICS
from tileiras.targets.nvptx import MODULE_HEADER
from tileiras.targets.requirements import FAMILIES, admits, form


@pytest.mark.parametrize("chip, ptx", by_target())
def test_every_row_compiles_and_assembles_on_its_lowest_target(chip, ptx, ptxas):
    rows = [
        row
        for row in INTRINSICS.values()
        if lowest_chip(row) == chip and max(row.ptx, processor(chip).ptx) == ptx
    ]
    ir = MODULE_HEADER + "\n".join([declare(row) for row in rows] + [kernel(n, row) for n, row in enumerate(rows)])
    assert max([*(need.version for need in admission.check(ir, processor(chip)).ptx), processor(chip).ptx]) == ptx
    text = llvm_pipeline.compile_to_ptx(ir, processor(chip), requested_ptx=ptx, opt_level=1).text
    # A name unknown to LLVM becomes a call of an extern function.
    assert not re.search(r"llvm[._]nvvm", text)
    assert len(assembler.assemble(text, chip, opt_level=0, ptxas=ptxas).resources) == len(rows)


def test_effects_are_from_the_closed_set():
    assert {row.effects for row in INTRINSICS.values()} <= set(EFFECTS)


def test_requirements_compare_numbers_and_exact_targets():
    assert admits("80", "sm_80") and admits("80", "sm_103a") and not admits("80", "sm_75")
    assert admits("=100a,103a", "sm_103a") and not admits("=100a,103a", "sm_107")


def test_the_least_form_of_a_chip_that_meets_a_requirement():
    assert [form("=100a,100f", chip) for chip in ("sm_100", "sm_103", "sm_107", "sm_110", "sm_120")] == [
        "f", "f", "f", None, None,
    ]  # fmt: skip
    assert form("=90a", "sm_90") == "a" and form("=103a", "sm_103f") is None and form("=100f", "sm_103a") == "f"
    assert form("80", "sm_75") is None and form("80", "sm_90") == ""


def test_families_are_those_of_ptxas(ptxas):
    """Code for `sm_100f` runs on the family's members from 100 on; ptxas compiles every pair for comparison."""
    chips = [row for row in PROCESSORS.values() if row.number >= 100 and not row.suffix]
    for of in chips:
        version = max(processor(f"{of.chip}f").ptx, (9, 0))
        header = ".version {}.{}\n.target {}f\n.address_size 64\n".format(*version, of.chip)
        for on in chips:
            legal = any(of.number in family and on.number in family for family in FAMILIES) and on.number >= of.number
            try:
                assembler.assemble(header + ".visible .entry k() { ret; }\n", on.chip, ptxas=ptxas)
                accepted = True
            except CompileError:
                accepted = False
            assert accepted is legal, (of.chip, on.chip)


def test_intrinsic_above_the_target_is_refused_before_llvm():
    ir = MODULE_HEADER + declare(INTRINSICS["redux.sync.add"])
    needed = PTXRequirement((7, 0), "intrinsic 'llvm.nvvm.redux.sync.add'")
    assert admission.check(ir, processor("sm_80")) == ("", (needed,))
    with pytest.raises(CompileError, match=r"'llvm.nvvm.redux.sync.add' needs sm_80 or newer, not sm_75"):
        admission.check(ir, processor("sm_75"))


def test_unknown_and_uncompilable_intrinsics_are_refused():
    ir = MODULE_HEADER + "declare i32 @llvm.nvvm.shfl.synk.i32(i32)\ndeclare float @llvm.exp.f32(float)\n"
    with pytest.raises(CompileError) as error:
        admission.check(ir, processor("sm_90"))
    assert [d.message for d in error.value.diagnostics] == [
        "unknown intrinsic 'llvm.nvvm.shfl.synk.i32'",
        "intrinsic 'llvm.exp.f32' has no NVPTX code: LLVM would end on it",
    ]


def test_generic_intrinsics_are_admitted_by_base_name_and_type():
    text = "declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)\ndeclare void @llvm.trap()\n"
    assert admission.check(text, processor("sm_75")) == ("", ())
    with pytest.raises(CompileError, match="llvm.exp2.f64"):
        admission.check("declare double @llvm.exp2.f64(double)\n", processor("sm_90"))
