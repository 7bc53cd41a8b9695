"""The object file in `.nv.host`: its code is that of LLVM, and it works as the table of callbacks promises."""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tileiras.codegen import host_code, toolkit
from tileiras.codegen.host_code import HostKernel
from tileiras.codegen.host_machine_code import CODE
from tileiras.codegen.object_file import ObjectFile

KERNELS = [HostKernel("first"), HostKernel("second")]
SOURCE = Path(__file__).with_name("host_code.ll")
MADE_WITH = "0.50"
"""The llvmlite whose LLVM compiled the code; others may choose other instructions."""

COMPILE = """
import json, sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
source = open(sys.argv[1]).read()
made = {}
for platform in sys.argv[2:]:
    module = llvm.parse_assembly(f'target triple = "{platform}"\\n{source}')
    model = "large" if platform.startswith("x86_64") else "default"
    machine = llvm.Target.from_triple(platform).create_target_machine(opt=2, reloc="pic", codemodel=model)
    module.data_layout = str(machine.target_data)
    made[platform] = machine.emit_object(module).hex()
print(json.dumps(made))
"""


def sections(image: bytes) -> dict[str, tuple[tuple, bytes]]:
    """Name -> header and content."""
    (start,) = struct.unpack_from("<Q", image, 0x28)
    number, names = struct.unpack_from("<HH", image, 0x3C)
    rows = [struct.unpack_from("<IIQQQQIIQQ", image, start + 64 * row) for row in range(number)]
    text = rows[names][4]
    return {
        image[text + row[0] : image.index(b"\0", text + row[0])].decode(): (row, image[row[4] : row[4] + row[5]])
        for row in rows
    }


def relocations(image: bytes, section: str) -> list[tuple[int, int, str, int]]:
    """Offset, type, symbol (or the section whose symbol it is) and addend."""
    result = sections(image)
    symbols, strings = result[".symtab"][1], result[".strtab"][1]
    rows = []
    for at, info, addend in struct.iter_unpack("<QQq", result[section][1]):
        name, kind, _, index, _, _ = struct.unpack_from("<IBBHQQ", symbols, 24 * (info >> 32))
        symbol = strings[name : strings.index(b"\0", name)].decode()
        rows.append((at, info & 0xFFFFFFFF, symbol if kind & 15 != 3 else list(result)[index], addend))
    return rows


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[str, str], bytes]:
    llvmlite = pytest.importorskip("llvmlite")
    if not llvmlite.__version__.startswith(MADE_WITH):
        pytest.skip(f"not llvmlite {MADE_WITH}")
    triples = {f"{arch}-unknown-{system}-elf": (arch, system) for arch, system in CODE}
    done = subprocess.run([sys.executable, "-c", COMPILE, SOURCE, *triples], capture_output=True, check=True)
    return {triples[triple]: bytes.fromhex(result) for triple, result in json.loads(done.stdout).items()}


@pytest.mark.parametrize("platform", CODE, ids="-".join)
def test_the_code_is_llvms_output_for_its_source(compiled, platform):
    image, code = ObjectFile(compiled[platform]), CODE[platform]
    ours = host_code.host_object(KERNELS[:1], *platform)
    name = f".{code.prefix}text"
    pre_load = image.symbols()[host_code.PRE_LOAD][1]

    def made(function: str) -> str:
        _, at, size = image.symbols()[function]
        return image.section(name)[at : at + size].hex()

    assert code.pre_load == made(host_code.PRE_LOAD)
    assert code.nothing == made(f"{host_code.ARGUMENTS_CHANGE}0")
    assert code.fill == made(f"{host_code.ARGUMENTS_CHANGE}1")
    theirs = [(at - pre_load, *rest) for at, *rest in relocations(image.data, f".rela{name}")]
    symbols = {host_code.COPY: f".{code.prefix}bss"}
    assert [(at, kind, symbols.get(symbol, symbol), addend) for at, kind, symbol, addend in code.relocations] == theirs
    assert ours[:20] == image.data[:20], "the same kind of file"
    for section in (name, f".{code.prefix}bss", ".data.rel.ro"):
        flags = [sections(each)[section][0][1:3] for each in (ours, image.data)]
        assert flags[0] == flags[1], section


def test_the_pre_load_function_of_a_library_works(tmp_path):
    if (os.uname().machine if hasattr(os, "uname") else "") != "x86_64" or shutil.which("gcc") is None:
        pytest.skip("needs gcc on x86-64")
    (tmp_path / "host.o").write_bytes(host_code.host_object(KERNELS, "x86_64", "linux"))
    library = tmp_path / "libhost.so"
    subprocess.run(["gcc", "-shared", "-o", library, tmp_path / "host.o"], check=True)
    pre_load = getattr(ctypes.CDLL(str(library)), host_code.PRE_LOAD)
    result = ctypes.c_void_p()
    assert pre_load(None, None, 0, ctypes.byref(result)) == 1 and result.value is None
    assert pre_load(None, None, 2, ctypes.byref(result)) == 0
    callbacks = list((ctypes.c_uint64 * 9).from_address(result.value))
    table, loaded = callbacks[5], callbacks[8]
    assert callbacks == [2, 0, 0, 0, host_code.KERNEL_BYTES, table, 2, 2, loaded]
    assert loaded == ctypes.cast(pre_load, ctypes.c_void_p).value
    for index, name in enumerate([b"first", b"second"]):
        entry = list((ctypes.c_uint64 * 8).from_address(table + index * callbacks[4]))
        assert ctypes.string_at(entry[0]) == name and entry[1:5] == [0] * 4 and entry[6:] == [0, 0]
        assert ctypes.CFUNCTYPE(ctypes.c_int)(entry[5])() == 0


@pytest.mark.parametrize("platform", CODE, ids="-".join)
def test_it_has_the_sections_of_the_vendors(tmp_path, platform):
    """The sections and global symbols of the object in the vendor's cubin, and no relocation that is not there."""
    tool = toolkit.find_program("tileiras")
    if tool is None:
        pytest.skip("no vendor tool")
    from tileiras import api

    text = "cuda_tile.module @m {\n  entry @k(%p: tile<ptr<f32>>) {\n    return\n  }\n}\n"
    data = api.compile(text, gpu_name="sm_90", emit="bytecode", bytecode_version="13.3").data
    (tmp_path / "k.bc").write_bytes(data)
    words = ["--gpu-name=sm_90", f"--host-arch={platform[0]}", f"--host-os={platform[1]}", "-o", tmp_path / "vendor"]
    subprocess.run([tool, tmp_path / "k.bc", *words], check=True)
    image = sections((tmp_path / "vendor").read_bytes())[".nv.host"][1]
    ours = host_code.host_object([HostKernel("k")], *platform)
    unwinding = {".eh_frame", ".rela.eh_frame", ".text"}  # nothing is thrown, and the last is empty on x86-64
    assert set(sections(image)) - set(sections(ours)) <= unwinding
    assert sections(image)[".data.rel.ro"][1] == sections(ours)[".data.rel.ro"][1]
    pointers = [relocations(each, ".rela.data.rel.ro") for each in (ours, image)]
    assert pointers[0] == pointers[1]
    text = ".rela.ltext" if platform[0] == "x86_64" else ".rela.text"
    kinds = [{row[1] for row in relocations(each, text)} for each in (ours, image)]
    assert kinds[0] <= kinds[1]


def test_the_host_is_this_machines_unless_it_is_named(monkeypatch):
    assert host_code.platform_of("aarch64", "windows") == ("aarch64", "windows")
    if hasattr(os, "uname"):
        for machine, expected in (("arm64", "aarch64"), ("x86_64", "x86_64"), ("riscv64", None)):
            names = os.uname_result(("Linux", "", "", "", machine))
            monkeypatch.setattr(os, "uname", lambda names=names: names)
            assert host_code.platform_of(None, "linux") == (expected and (expected, "linux"))
