"""The vendor's code for a few kernels of the operation table gives the interpreter's results."""

from __future__ import annotations

import platform
import struct

import pytest
import whole_kernels
from case_kernels import modules, pairwise_kernels
from vendor_code import known_reason, run_group, vendor_launch
from vendor_ptx import vendor_compile, vendor_ptx

from bench.whole_process import vendor_tool
from tileiras.codegen.object_file import ObjectFile

MODULES = [modules_[:4] for modules_ in modules(list(pairwise_kernels()))[::23]]


@pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler")
@pytest.mark.parametrize("kernels", MODULES, ids=lambda kernels: kernels[0].family)
def test_the_vendors_code_and_the_interpreter_agree(kernels):
    rows = run_group(kernels, "sm_80")
    assert [row for row in rows if row.outcome == "different"] == []
    assert len(rows) == len(kernels)


@pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the cubin's code for the host is for x86-64")
@pytest.mark.parametrize(("name", "uses"), [("matmul_bf16", "wgmma.mma_async"), ("rms_norm", "2d.shared::cta.global"),
                                            ("rms_norm", "2d.global.shared::cta")])  # fmt: skip
def test_tensor_maps_that_the_vendors_host_code_makes(name, uses):
    (case,) = whole_kernels.cases([name])
    code = vendor_compile(case.data, "sm_90")
    assert ".hidden" in code.ptx and uses in code.ptx
    case.run(lambda given: vendor_launch(code, case, given))


@pytest.mark.sampled(1)
@pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the cubin's code for the host is for x86-64")
@pytest.mark.parametrize("target", ["sm_100", "sm_103", "sm_110"])
@pytest.mark.parametrize(("name", "uses"), [("matmul_bf16", "kind::f16"), ("matmul_f16_f16", "pack::16b")])
def test_products_in_tensor_memory(name, uses, target):
    (case,) = whole_kernels.cases([name])
    code = vendor_compile(case.data, target)
    assert "tcgen05.mma" in code.ptx and uses in code.ptx
    case.run(lambda given: vendor_launch(code, case, given))


@pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler")
def test_the_vendors_ptx_is_a_module_alone(tmp_path):
    text = vendor_ptx("cuda_tile.module @m {\n entry @k() {\n return\n }\n}\n", "sm_80")
    assert ".visible .entry k(" in text and text.rstrip().endswith("}") and "cuda_tile" not in text


def test_sections_are_found_by_their_names():
    names = b"\0.shstrtab\0.code\0"
    header = struct.pack("<16s2HI3QI6H", b"\x7fELF\2\1", 2, 190, 1, 0, 0, 64 + 32, 0, 64, 0, 0, 64, 3, 1)
    data = header + names.ljust(24, b"\0") + b"contents"
    rows = [(0, 0, 0), (1, 64, len(names)), (11, 64 + 24, 8)]
    data += b"".join(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 0, 0) for name, at, size in rows)
    assert ObjectFile(data).section(".code") == b"contents"
    with pytest.raises(KeyError):
        ObjectFile(data).section(".text")


def test_a_known_difference_is_one_of_its_kernel_and_its_kind():
    assert known_reason("divi signed zero i32 8 of 13", "address 0x34 is in no allocation") is not None
    assert known_reason("divi signed zero i32 8 of 13", "1 of 13 elements of %r differ") is None
    assert known_reason("addi i32 8 of 13", "address 0x34 is in no allocation") is None
