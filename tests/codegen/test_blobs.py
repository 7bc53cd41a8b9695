"""Bitcode in a module: `blobLinkedLib`."""

import json

import llvmlite.binding as llvm
import pytest

from tileiras.diagnostics import CompileError
from tileiras.ir import ArrayAttr, DenseArrayAttr, StringAttr, i8
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.options import CompileOptions
from tileiras.pipeline import run_stage, stage
from tileiras.stages import StageContext
from tileiras.targets.nvptx import MODULE_HEADER

LIBRARY = """
@table = internal addrspace(4) constant [2 x float] [float 2.0, float 3.0]

define float @scaled(float %x) {
  %p = getelementptr float, ptr addrspace(4) @table, i64 1
  %f = load float, ptr addrspace(4) %p
  %y = call float @helper(float %x)
  %z = fmul float %y, %f
  ret float %z
}

define float @helper(float %x) {
  %y = call float @__nv_fabsf(float %x)
  ret float %y
}

define float @unused(float %x) {
  %y = call float @nobody_has_this(float %x)
  ret float %y
}

declare float @__nv_fabsf(float)
declare float @nobody_has_this(float)
"""

KERNEL = MODULE_HEADER + """
define ptx_kernel void @k(ptr addrspace(1) %p) {
  %x = load float, ptr addrspace(1) %p
  %y = call float @scaled(float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}
declare float @scaled(float)
"""


@pytest.fixture(scope="module")
def bitcode() -> bytes:
    return llvm.parse_assembly(LIBRARY, context=llvm.create_context()).as_bitcode()


def compile_ptx(ir: str, **options) -> str:
    values = CompileOptions({"gpu-name": "sm_80", **options})
    return run_stage(stage("ptx"), ir.encode(), values, StageContext()).output.decode()


def inline(data: bytes) -> str:
    text = "".join(f"\\{byte:02X}" for byte in data)
    return KERNEL + f'!tileiras.blobs = !{{!0}}\n!0 = !{{!"inline", !"{text}"}}\n'


@pytest.mark.parametrize("level", [0, 3])
def test_only_symbols_that_the_kernel_reaches_are_linked(bitcode, device_library, level):
    text = compile_ptx(inline(bitcode), **{"opt-level": level})
    assert "abs.f32" in text and "call" not in text.partition("abs.f32")[2].partition("\n}")[0]
    assert "unused" not in text and "nobody_has_this" not in text
    assert level == 0 or "scaled" not in text


def test_files_on_the_command_line_are_blobs_as_well(bitcode, device_library, tmp_path):
    path = tmp_path / "library.bc"
    path.write_bytes(bitcode)
    by_option = compile_ptx(KERNEL, **{"blob-linked-lib": [str(path)]})
    by_path = compile_ptx(KERNEL + f'!tileiras.blobs = !{{!0}}\n!0 = !{{!"path", !"{path}"}}\n')
    assert by_option == by_path == compile_ptx(inline(bitcode))


def test_the_reference_words(bitcode, tmp_path):
    with pytest.raises(CompileError) as error:
        compile_ptx(KERNEL, **{"blob-linked-lib": [str(tmp_path)]})
    assert error.value.diagnostics[0].message == "blobLinkedLib: bitcode path does not exist or is not a file"
    with pytest.raises(CompileError) as error:
        compile_ptx(inline(b"BC no bitcode"))
    assert error.value.diagnostics[0].message == "blobLinkedLib: failed to parse embedded bitcode"
    with pytest.raises(CompileError, match="Unresolved extern function 'scaled'"):
        compile_ptx(KERNEL)


EXP = KERNEL.replace("@scaled", "@__nv_expf")


def test_explicit_links_blobs_only(bitcode, device_library):
    explicit = {"libdevice": "explicit"}
    with pytest.raises(CompileError) as error:
        compile_ptx(EXP, **explicit)
    assert error.value.code == 5
    assert error.value.diagnostics[0].message == "Unresolved extern function '__nv_expf'"
    assert "libdevice=explicit" in error.value.diagnostics[0].notes[0].message
    # The callees of a blob are looked up in blobs as well.
    with pytest.raises(CompileError, match="Unresolved extern function '__nv_fabsf'"):
        compile_ptx(inline(bitcode), **explicit)
    brought = {"blob-linked-lib": [device_library.path], **explicit}
    assert compile_ptx(EXP, **brought) == compile_ptx(EXP)
    assert compile_ptx(inline(bitcode), **brought) == compile_ptx(inline(bitcode))


def test_linked_files_are_part_of_the_key(tmp_path):
    from tileiras.codegen.llvm_identity import tool_identity

    def identity(option):
        return tool_identity(stage("ptx").select(CompileOptions({"gpu-name": "sm_80", "libdevice": option})))

    assert len({identity("explicit"), identity(None), identity(str(tmp_path))}) == 3
    assert identity("explicit").endswith("libdevice-explicit")


def test_blobs_that_nothing_is_wanted_of_are_not_read():
    without = KERNEL.replace("call float @scaled(float %x)", "fadd float %x, %x")
    without = without.replace("declare float @scaled(float)\n", "")
    assert ".entry k" in compile_ptx(without + '!tileiras.blobs = !{!0}\n!0 = !{!"inline", !"nonsense"}\n')


def test_the_attribute_becomes_metadata():
    from tileiras.dialects.builtin import ModuleOp
    from tileiras.ir import Block, Region, parse_attribute

    blobs = ArrayAttr([StringAttr("lib/a.bc"), DenseArrayAttr(i8, [66, 67, -64])])
    module = ModuleOp.create((), (), {"blobLinkedLib": blobs}, [Region([Block()])], ())
    text = translate_module(module)
    assert '!tileiras.blobs = !{!0, !1}' in text
    assert '!0 = !{!"path", !"lib/a.bc"}' in text and '!1 = !{!"inline", !"\\42\\43\\C0"}' in text
    module.attributes["blobLinkedLib"] = parse_attribute("dense<[66, 67, -64]> : tensor<3xi8>")
    assert '!0 = !{!"inline", !"\\42\\43\\C0"}' in translate_module(module)
    module.attributes["blobLinkedLib"] = i8
    with pytest.raises(CompileError, match="'blobLinkedLib' must be a path or an array of i8"):
        translate_module(module)


def test_a_blob_is_part_of_the_key(bitcode, tmp_path):
    from tileiras.codegen.llvm_identity import tool_identity

    path = tmp_path / "library.bc"
    row = stage("ptx")

    def identity(*paths):
        return tool_identity(row.select(CompileOptions({"gpu-name": "sm_80", "blob-linked-lib": paths})))

    path.write_bytes(bitcode)
    known = identity(str(path))
    assert known != identity() and known == identity(str(path))
    assert json.dumps(str(tmp_path)) not in known
