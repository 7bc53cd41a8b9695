"""LLVM IR from other compilers: attributes of targets and launches are checked, and errors located at them."""

import re

import pytest

from tileiras import api
from tileiras.diagnostics import CompileError
from tileiras.targets.nvptx import DATA_LAYOUT

KERNEL = "define ptx_kernel void @k() {} {{\n  ret void\n}}\n"
TRIPLE = 'target triple = "nvptx64-nvidia-cuda"\n'


def compiled(tmp_path, text, **options):
    path = tmp_path / "k.ll"
    path.write_text(text)
    return api.compile(path, gpu_name=options.pop("gpu_name", "sm_90"), emit="ptx", **options).text


def refused(tmp_path, text, code=5, **options):
    with pytest.raises(CompileError) as error:
        compiled(tmp_path, text, **options)
    assert error.value.code == code
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.position.filename.endswith("k.ll")
    return diagnostic.position.line, diagnostic.message


@pytest.mark.parametrize(
    ("triple", "why"),
    [
        ("x86_64-unknown-linux-gnu", ""),
        ("nvptx64-amd-hsa", ""),
        ("", ""),
        ("nvptx-nvidia-cuda", ", whose addresses have 32 bits"),
        ("nvptx", ", whose addresses have 32 bits"),
        ("nvptx64-nvidia-gpulibs", ", which is a library's"),
    ],
)
def test_triples_of_other_machines(tmp_path, triple, why):
    text = "; written by hand\n" + f'  target triple = "{triple}"\n' + KERNEL.format("")
    result = f"failed to look up NVPTX target for requested triple: '{triple}'{why}"
    assert refused(tmp_path, text) == (2, result)


@pytest.mark.parametrize("triple", ["nvptx64-nvidia-cuda", "nvptx64", "nvptx64-unknown-unknown"])
def test_triples_of_the_gpu(tmp_path, triple):
    assert ".visible .entry k()" in compiled(tmp_path, f'target triple = "{triple}"\n' + KERNEL.format(""))


@pytest.mark.parametrize(
    ("layout", "word"),
    [
        ("e-m:e-p270:32:32-i64:64-i128:128-f80:128-n8:16:32:64-S128", "'m:e'"),
        ("E-i64:64", "'E'"),
        ("e-p:32:32-i64:64", "'p:32:32'"),
        ("e-p3:32:32-i64:64-i128:128-n16:32:64", "'p3:32:32'"),
        ("e-i64:32-i128:128", "'i64:32'"),
        ("e-i64:64-i128:64", "'i128:64'"),
        ("e-p:64:64", "i64 is aligned to 32 bits where nothing is said"),
        ("nonsense-i64:64", "'nonsense'"),
        ("e-i64:64-A5", "'A5'"),
    ],
)
def test_data_layouts_of_other_machines(tmp_path, layout, word):
    line, result = refused(tmp_path, TRIPLE + f'target datalayout = "{layout}"\n' + KERNEL.format(""))
    assert (line, result) == (2, f"data layout of another machine: {word}")


@pytest.mark.parametrize(
    "layout",
    [
        "",
        DATA_LAYOUT,
        # LLVM's until 16, 19 and 20, and NVVM IR's.
        "e-i64:64-v16:16-v32:32-n16:32:64",
        "e-i64:64-i128:128-v16:16-v32:32-n16:32:64",
        "e-p6:32:32-i64:64-i128:128-v16:16-v32:32-n16:32:64",
        "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-"
        "v64:64:64-v128:128:128-n16:32:64",
    ],
)
def test_data_layouts_of_the_gpu(tmp_path, layout):
    assert compiled(tmp_path, f'target datalayout = "{layout}"\n' + TRIPLE + KERNEL.format(""))


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ('"nvvm.reqntid"="x"', "must be integer array with maximum 3 index"),
        ('"nvvm.reqntid"=""', "must be integer array with maximum 3 index"),
        ('"nvvm.reqntid"="1.5"', "must be integer array with maximum 3 index"),
        ('"nvvm.reqntid"="1,1,1,1"', "must be integer array with maximum 3 index"),
        ('"nvvm.reqntid"="0"', "must be positive, got 0"),
        ('"nvvm.maxntid"="-4,8"', "must be positive, got -4, 8"),
        ('"nvvm.maxntid"="2048"', "asks for 2048 threads; a CTA has 1 to 1024"),
        ('"nvvm.cluster_dim"="3"', "must be powers of two with a product of at most 16"),
        ('"nvvm.minctasm"="0"', "must be positive, got 0"),
        ('"nvvm.minctasm"="one"', "must be integer constant"),
        ('"nvvm.maxnreg"="99999999999"', "must be at most 2147483647, got 99999999999"),
        ('"nvvm.maxclusterrank"="-1"', "must be positive, got -1"),
        ('"nvvm.blocksareclusters"="1"', "must be a unit attribute"),
    ],
)
@pytest.mark.parametrize("group", [False, True])
def test_launch_attributes(tmp_path, attribute, said, group):
    name = re.match(r'"([^"]*)"', attribute)[1]
    kernel = KERNEL.format("#0" if group else attribute) + (f"attributes #0 = {{ nounwind {attribute} }}\n" * group)
    assert refused(tmp_path, TRIPLE + kernel) == (2, f"'{name}' attribute {said}")


def test_clusters_need_sm_90(tmp_path):
    kernel = KERNEL.format('"nvvm.cluster_dim"="2,1,1"')
    assert refused(tmp_path, kernel, gpu_name="sm_80") == (
        1, "'nvvm.cluster_dim' attribute needs sm_90 or newer, not sm_80",
    )  # fmt: skip
    assert ".reqnctapercluster 2" in compiled(tmp_path, kernel)


@pytest.mark.parametrize("value", ["i32 -1", "i32 0", '!"x"', "i64 99999999999", "float 1.0"])
def test_annotations(tmp_path, value):
    text = (
        "define void @k() {\n  ret void\n}\n!nvvm.annotations = !{!0, !1}\n"
        f'!0 = !{{ptr @k, !"kernel", i32 1}}\n!1 = !{{ptr @k, !"maxntidx", {value}}}\n'
    )
    assert refused(tmp_path, text) == (6, f"'maxntidx' annotation must be a positive number, got {value}")
    assert ".maxntid 64" in compiled(tmp_path, text.replace(value, "i32 64"))


def test_processors_of_other_machines(tmp_path):
    text = KERNEL.format('"target-cpu"="x86-64"')
    assert refused(tmp_path, text) == (1, "functions are for 'x86-64', which is no GPU")
    assert compiled(tmp_path, KERNEL.format('"target-cpu"="sm_52"'))


def test_unreadable_llvm_ir_has_its_line(tmp_path):
    assert refused(tmp_path, TRIPLE + KERNEL.format("") + "nonsense\n", code=3) == (
        5, "LLVM refused the module: expected top-level entity",
    )  # fmt: skip


# ---- attributes of a module's target ---------------------------------------------------------------------------------

MODULE = """module {{
  gpu.module @m [#nvvm.target<{}>] {{
    llvm.func @k(%p: !llvm.ptr<1>, %i: i32) attributes {{nvvm.kernel{}}} {{
      %one = llvm.mlir.constant(1 : i32) : i32
      %q = llvm.alloca %one x i32 : (i32) -> !llvm.ptr
      llvm.store %i, %q : i32, !llvm.ptr
      %j = llvm.load %q : !llvm.ptr -> i32
      llvm.store %j, %p : i32, !llvm.ptr<1>
      llvm.return
    }}
  }}
}}
"""


def translated(tmp_path, target, attributes="", **options):
    path = tmp_path / "k.llvm.mlir"
    path.write_text(MODULE.format(target, attributes))
    return api.compile(path, gpu_name="sm_90", **{"emit": "ptx", **options}).text


def test_features_ask_for_a_ptx_version(tmp_path):
    assert ".version 7.8" in translated(tmp_path, 'chip = "sm_90", features = "+ptx60,+sm_90"')
    assert ".version 8.6" in translated(tmp_path, 'chip = "sm_90", features = "+ptx86"')
    with pytest.raises(CompileError, match="8.6 or newer"):
        translated(tmp_path, 'chip = "sm_90", features = "+ptx86"', ptx_version="8.0")


def test_the_lower_optimization_level_holds(tmp_path):
    plain, optimized = (translated(tmp_path, 'O = 3, chip = "sm_90"', opt_level=level) for level in (0, 3))
    assert ".local" in plain and ".local" not in optimized
    assert translated(tmp_path, 'O = 0, chip = "sm_90"', opt_level=3) == plain
    ir = translated(tmp_path, 'O = 0, chip = "sm_90"', emit="llvm", opt_level=3)
    assert "!tileiras.opt_level = " in ir and compiled(tmp_path, ir) == plain
    assert "tileiras.opt_level" not in translated(tmp_path, 'O = 3, chip = "sm_90"', emit="llvm")


@pytest.mark.parametrize(
    ("attribute", "directive"),
    [
        ("nvvm.cluster_max_blocks = 4 : i32", ".maxclusterrank 4"),
        ("nvvm.maxclusterrank = 4 : i32", ".maxclusterrank 4"),
        ("nvvm.maxnreg = 64 : i32", ".maxnreg 64"),
        ("nvvm.maxntid = array<i32: 8, 4>", ".maxntid 8, 4"),
    ],
)
def test_launch_attributes_become_directives(tmp_path, attribute, directive):
    assert directive in translated(tmp_path, 'chip = "sm_90"', f", {attribute}")


@pytest.mark.parametrize("other", ['chip = "sm_90"', 'chip = "sm_80"', "O = 1"])
def test_two_targets_are_one_too_many(tmp_path, other):
    with pytest.raises(CompileError, match="gpu.module has 2 targets; it is compiled for one") as error:
        translated(tmp_path, f'chip = "sm_90">, #nvvm.target<{other}')
    assert error.value.code == 5 and error.value.diagnostics[0].position.line == 2
