import re

import pytest

import tileiras
from tileiras.codegen import bitcode_library, libdevice, llvm_pipeline, toolkit
from tileiras.codegen.target_machine import processor
from tileiras.diagnostics import CompileError
from tileiras.lowering.math_to_funcs import FUNCTIONS
from tileiras.processes import helper
from tileiras.targets.nvptx import MODULE_HEADER

USES_EXP = (
    MODULE_HEADER
    + """
declare float @__nv_expf(float)
define ptx_kernel void @k(ptr addrspace(1) %p) {
  %x = load float, ptr addrspace(1) %p
  %y = call float @__nv_expf(float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}
"""
)

LIBRARY = """\
target triple = "nvptx64-nvidia-gpulibs"

%struct.pair = type { i32, i32 }

@.str = private unnamed_addr constant [17 x i8] c"__CUDA_PREC_SQRT\\00", align 1
@table = internal addrspace(1) constant [2 x i32] [i32 1, i32 2]

; Function Attrs: nounwind
define i32 @__nv_a(i32 %x) #0 {
  %p = alloca %struct.pair
  %1 = call i32 @helper(i32 %x), !srcloc !4
  ret i32 %1
}

define i32 @helper(i32 %x) {
  %1 = call i32 @__nvvm_reflect(ptr @.str)
  ret i32 %1
}

define i32 @__nv_unused(i32 %x) {
  ret i32 %x
}

declare i32 @__nvvm_reflect(ptr)

attributes #0 = { nounwind }

!4 = !{i32 1}
"""


def test_split_keeps_exactly_the_functions_reached(tmp_path):
    entries = bitcode_library.unpack(bitcode_library.pack(bitcode_library.split(LIBRARY)))
    assert entries == bitcode_library.split(LIBRARY)
    assert set(entries["@__nv_a"][1]) == {"%struct.pair", "@helper", "#0"}
    assert "!srcloc" not in entries["@__nv_a"][0]


def test_square_root_reflection_is_answered_by_the_linker():
    import llvmlite.binding as llvm

    bitcode = llvm.parse_assembly(LIBRARY, context=llvm.create_context()).as_bitcode()
    library = bitcode_library.BitcodeLibrary("test", None, bitcode, bitcode_library.MemoryStore())
    assert "%1 = add i32 0, 1" in library.closure(["__nv_a"])
    module = '!nvvm.reflection = !{!0}\n!0 = !{!"__CUDA_PREC_SQRT", i32 0}\n'
    assert "%1 = add i32 0, 0" in library.closure(["__nv_a"], None, bitcode_library.reflection(module))


def test_functions_of_kernels_ask_for_flushing_and_the_gpu_only(device_library):
    """So the option `approx` changes operations only."""
    names = [name for row in FUNCTIONS.values() for name in (row.f32, row.f64)]
    assert "__nv_expf" in names
    text = device_library.closure(names)
    assert set(re.findall(r'c"(__CUDA_\w+)', text)) <= {"__CUDA_FTZ", "__CUDA_ARCH"}


def test_options_reach_the_libraries(device_library):
    """ftz: the library's flushing variants, and flushing operations; approx: division and square root."""
    kernel = """cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) {
      %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
      %e = exp %x : tile<f32>
      %d = divf %e, %x : tile<f32>
      %s = sqrt %d : tile<f32>
      %u = store_ptr_tko weak %p, %s : tile<ptr<f32>>, tile<f32> -> token
      return } }"""

    def opcodes(**options: bool) -> set[str]:
        text = tileiras.compile(kernel, gpu_name="sm_90", **options).text
        return set(re.findall(r"\b(?:div|sqrt|fma\.rn|mul)[a-z.0-9]*f32", text))

    assert opcodes() >= {"div.rn.f32", "sqrt.rn.f32", "fma.rn.f32"}
    assert opcodes(ftz=True) >= {"div.rn.ftz.f32", "sqrt.rn.ftz.f32", "fma.rn.ftz.f32"}
    assert opcodes(approx=True) >= {"div.approx.f32", "sqrt.approx.f32", "fma.rn.f32"}
    flagged = tileiras.compile(kernel, gpu_name="sm_90", approx=True, emit="llvm").text
    assert '!{!"__CUDA_PREC_SQRT", i32 0}' in flagged


def test_closure_links_into_a_kernel_and_disappears_in_it(device_library):
    assert llvm_pipeline.external_functions(USES_EXP) == ["__nv_expf"]
    library = device_library.closure(["__nv_expf"])
    assert library.count("\ndefine ") == 1 and len(library) < 20_000
    for level in (0, 3):
        text = llvm_pipeline.compile_to_ptx(USES_EXP, processor("sm_80"), libraries=[library], opt_level=level).text
        assert "ex2.approx.ftz.f32" in text
        assert ".func" not in text and "call" not in text


def test_a_closure_is_cached_under_its_inputs():
    class Store(bitcode_library.MemoryStore):
        taken: list[str] = []

        def get(self, key):
            self.taken.append(key)
            return super().get(key)

    store = Store()
    path = toolkit.find_library("libdevice.10.bc")
    if path is None:
        pytest.skip("needs libdevice")
    first = bitcode_library.BitcodeLibrary("libdevice", path, store=store).closure(["__nv_sqrtf", "__nv_expf"])
    split = [key for key in store.taken if "closure" not in key]
    again = bitcode_library.BitcodeLibrary("libdevice", path, store=store)
    assert again.closure(["__nv_expf", "__nv_sqrtf", "__nv_expf"]) == first
    assert [key for key in store.taken if "closure" not in key] == split and len(split) == 1
    zeros = dict.fromkeys(bitcode_library.REFLECT_VALUES, 0)
    assert again.closure(["__nv_expf", "__nv_sqrtf"], reflection=zeros) != first


def test_flush_to_zero_module_flag_selects_the_flushing_variant(device_library):
    library = device_library.closure(["__nv_expf"])
    flagged = USES_EXP + '!llvm.module.flags = !{!0}\n!0 = !{i32 4, !"nvvm-reflect-ftz", i32 1}\n'
    plain = llvm_pipeline.compile_to_ptx(USES_EXP, processor("sm_80"), libraries=[library]).text
    flushing = llvm_pipeline.compile_to_ptx(flagged, processor("sm_80"), libraries=[library]).text
    assert flushing.count(".ftz") > plain.count(".ftz")


def test_split_form_is_taken_from_the_store(device_library):
    store = bitcode_library.MemoryStore()
    first = libdevice.find(device_library.path, store)
    text = first.closure(["__nv_logf", "__nv_expf"])
    (key,) = (key for key in store._entries if "closure" not in key)
    assert first.digest in key
    stored = store.get(key)
    store.put(key, stored.replace(b"__nv_expf", b"__nv_expX"))
    with pytest.raises(CompileError, match="libdevice defines no function '__nv_expf'"):
        libdevice.find(device_library.path, store).closure(["__nv_expf"])
    store.put(key, stored)
    again = libdevice.find(device_library.path, store)
    assert again.closure(["__nv_expf", "__nv_logf"]) == text


def test_missing_library_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(toolkit, "wheel_roots", list)
    for variable in toolkit.ROOT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert libdevice.find() is None
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert libdevice.find() is None
    (tmp_path / "nvvm/libdevice").mkdir(parents=True)
    (tmp_path / libdevice.LIBDEVICE).write_bytes(b"")
    assert libdevice.find().path == str(tmp_path / libdevice.LIBDEVICE)
    error = libdevice.missing(["__nv_expf"])
    assert error.diagnostics[0].message == "could not find libdevice.bc"
    assert "nvidia-nvvm" in error.render() and "__nv_expf" in error.render()


# ---- beside the package ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_library(tmp_path, monkeypatch):
    """Make libraries of one file, for processes without a store; their prepared form is in a folder of the test."""
    import llvmlite.binding as llvm

    path = tmp_path / "library.bc"
    path.write_bytes(llvm.parse_assembly(LIBRARY, context=llvm.create_context()).as_bitcode())
    monkeypatch.setattr(bitcode_library, "prepared_folder", str(tmp_path / "installed" / "bitcode"))
    return lambda: bitcode_library.BitcodeLibrary("test", str(path), store=bitcode_library.MemoryStore())


@pytest.fixture
def taken_apart(monkeypatch) -> list[str]:
    """Names of the requests to the helper process, which takes a library apart."""
    names: list[str] = []
    call = helper.call
    monkeypatch.setattr(helper, "call", lambda name, **given: (names.append(name), call(name, **given))[1])
    return names


def test_a_prepared_library_is_not_taken_apart_again(small_library, taken_apart, tmp_path):
    expected = small_library().closure(["__nv_a"])
    old = tmp_path / "installed" / "bitcode" / "test-of-another-release"
    old.parent.mkdir(parents=True)
    old.touch()
    assert small_library().prepare() == str(*old.parent.iterdir()) and not old.exists()
    taken_apart.clear()
    assert small_library().closure(["__nv_a"]) == expected
    assert taken_apart == []


def test_a_damaged_one_counts_as_absent(small_library, taken_apart):
    expected = small_library().closure(["__nv_a"])
    path = small_library().prepare()
    with open(path, "rb") as file:
        whole = file.read()
    for place in range(0, len(whole), 37):
        with open(path, "wb") as file:
            file.write(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        taken_apart.clear()
        assert small_library().closure(["__nv_a"]) == expected
        assert taken_apart == ["disassemble"]
    for size in (0, 5, 16, 17, len(whole) - 1):
        with open(path, "wb") as file:
            file.write(whole[:size])
        assert small_library().closure(["__nv_a"]) == expected


def test_the_command_prepares_the_library_that_is_found(device_library, monkeypatch, tmp_path, capsys):
    from tileiras.cli import tileiras_cache

    monkeypatch.setattr(bitcode_library, "prepared_folder", str(tmp_path / "bitcode"))
    assert tileiras_cache.main(["prepare"]) == 0
    modules, path = capsys.readouterr().out.splitlines()
    assert modules.endswith(" modules compiled") and int(modules.split()[0]) > 300
    monkeypatch.setattr(helper, "call", None)  # no request reaches LLVM
    again = libdevice.find(store=bitcode_library.MemoryStore())
    assert path == again._prepared_path() and again.closure(["__nv_expf"]) == device_library.closure(["__nv_expf"])


def test_an_unusable_libdevice_is_reported(monkeypatch, tmp_path, capsys):
    from tileiras.cli import tileiras_cache

    no_bitcode = tmp_path / "words.bc"
    no_bitcode.write_text("words")
    monkeypatch.setattr(bitcode_library, "prepared_folder", str(tmp_path / "words.bc" / "bitcode"))
    for words in (["--libdevice", str(tmp_path / "absent")], ["--libdevice", str(no_bitcode)]):
        assert tileiras_cache.main(["prepare", *words]) == 1
        assert capsys.readouterr().err.startswith("error: ")
    if libdevice.find() is not None:
        assert tileiras_cache.main(["prepare"]) == 1
        assert "unable to write" in capsys.readouterr().err
