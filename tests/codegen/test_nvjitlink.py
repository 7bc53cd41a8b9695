"""nvJitLink and ptxas on every example: equal messages, launches and spills; code and registers within bounds."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path

import pytest

from tileiras import api
from tileiras.build import discover
from tileiras.cli.tileiras import main
from tileiras.codegen import nvjitlink, nvjitlink_library
from tileiras.codegen.object_file import ObjectFile, with_section
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.processes import helper
from tileiras.stages import units

EXAMPLES = Path(__file__).parents[2] / "examples"

CODE = 0.6, 1.4
"""Bounds of the ratio of code sizes: a link has functions of its own for division and the like."""

LONGER = {("sm_80", "argmax"): 2.4}
"""Entries whose code for a link is longer than that on one GPU."""

MORE_REGISTERS = {("sm_100", "matmul_f32"): 2.4}
"""Entries that take more than `REGISTERS` there: 95 instead of 42."""

REGISTERS = 0.75, 2.0
"""Bounds of the ratio of register counts: registers of code for a link are allocated otherwise."""

RESERVED = 1024
"""Bytes of shared memory of each CTA that the system reserves (CUDA programming guide, compute capability 9.0), which
nvJitLink counts in some kernels."""

SAME = ("stack", "spill_stores", "spill_loads", "barriers", "dynamic_shared")


@pytest.fixture
def library() -> str:
    try:
        return nvjitlink.find()
    except CompileError:
        pytest.skip("no nvJitLink")


def sources() -> list[str]:
    """Examples in text and bytecode, and those in Python whose bytecode is not among them."""
    kernel_files = discover.kernel_files(str(EXAMPLES))
    stems = {Path(name).stem for name in kernel_files if name.endswith(".tileirbc")}
    return [name for name in kernel_files if not (name.endswith(".py") and Path(name).stem in stems)]


def assembled(name: str, assembler: str, ptx: bytes, gpu: str = "sm_90") -> tuple[bytes, dict, list[str]]:
    """The cubin of a source's PTX, the reported resources of each kernel, and the messages."""
    options = CompileOptions({"gpu-name": gpu, "assembler": assembler, "tile-launch": True})
    result = api.compile_with(units.Source(ptx, Path(name).stem + ".ptx", None, ".ptx"), options, "cubin")
    reported = {}
    for kernel in result.kernels:
        reported.update(json.loads(kernel.artifacts[".resources.json"])["kernels"])
    return result.data, reported, [diagnostic.message for diagnostic in result.diagnostics]


LANGUAGE, PARAMETER, REQUIRED_THREADS, CLUSTER, BLOCKS_ARE_CLUSTERS = 0x66, 0x17, 0x10, 0x3D, 0x5B
LAUNCH = (LANGUAGE, PARAMETER, REQUIRED_THREADS, CLUSTER, BLOCKS_ARE_CLUSTERS)
"""Attributes of `.nv.info.ENTRY` that determine the launch of a kernel."""

TILE_IR = struct.pack("<I", 7)


def attribute_of(data: bytes, wanted: int) -> set[bytes]:
    """The values of one attribute of an entry."""
    attribute = set()
    at = 0
    while at < len(data):
        form, number, value = struct.unpack_from("<BBH", data, at)
        at += 4
        payload = data[at : at + value] if form == 4 else struct.pack("<H", value)
        at += value if form == 4 else 0
        if number == wanted:
            attribute.add(payload)
    return attribute


OTHER_GPUS = ("sm_80", "sm_100", "sm_120")

OF_EACH_KIND = (
    "bytecode/matmul_f16.tileirbc", "kernels/argmax.py", "kernels/attention.py", "kernels/histogram.py",
    "matmul_f32.mlir",
)  # fmt: skip
"""Examples that are compared on other GPUs as well; of these the product of halves takes 96 KB of shared memory."""


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "name, gpu", [(name, "sm_90") for name in sources()] + [(name, gpu) for gpu in OTHER_GPUS for name in OF_EACH_KIND]
)
def test_an_example_is_the_same_kernel_by_both(ptxas, library, name, gpu):
    path = EXAMPLES / name
    if (discover.required_target(str(path)) or 0) > int(gpu.removeprefix("sm_")):
        pytest.skip(f"not for {gpu}")
    options = CompileOptions({"gpu-name": gpu, "tile-launch": True})
    try:
        ptx = api.compile_with(units.Source.read(str(path)), options, "ptx").data
    except CompileError as error:
        if "cuTile Python is not installed" in error.render():
            pytest.skip("no front end")
        raise
    program, reported, value = assembled(name, "ptxas", ptx, gpu)
    linked, result, heard = assembled(name, "nvjitlink", ptx, gpu)
    assert heard == value and result.keys() == reported.keys()
    first, second = ObjectFile(program), ObjectFile(linked)
    assert first.section(".nv.host") == second.section(".nv.host")
    for entry, expected in reported.items():
        resources = result[entry]
        assert {name: resources[name] for name in SAME} == {name: expected[name] for name in SAME}
        assert resources["shared"] - expected["shared"] in (0, RESERVED)
        most = MORE_REGISTERS.get((gpu, entry), REGISTERS[1])
        assert REGISTERS[0] <= resources["registers"] / expected["registers"] <= most
        longest = LONGER.get((gpu, entry), CODE[1])
        assert CODE[0] <= second.size(f".text.{entry}") / first.size(f".text.{entry}") <= longest
        for attribute in LAUNCH:
            values = [attribute_of(file.section(f".nv.info.{entry}"), attribute) for file in (first, second)]
            assert values[0] == values[1], hex(attribute)
        assert attribute_of(second.section(f".nv.info.{entry}"), LANGUAGE) == {TILE_IR}
    assert assembled(name, "nvjitlink", ptx, gpu)[0] == linked, "the same input, other bytes"


@pytest.fixture
def kernel(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_bytes((EXAMPLES / "saxpy.mlir").read_bytes())
    return tmp_path


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_levels_and_line_tables(ptxas, library, kernel, level):
    for assembler in ("ptxas", "nvjitlink"):
        words = ["k.mlir", "--gpu-name=sm_90", f"-O{level}", "--lineinfo", "--save-temps", f"--assembler={assembler}"]
        assert main([*words, "-o", f"{assembler}.cubin"]) == 0
    images = [ObjectFile((kernel / f"{assembler}.cubin").read_bytes()) for assembler in ("ptxas", "nvjitlink")]
    assert images[0].size(".text.saxpy") == pytest.approx(images[1].size(".text.saxpy"), abs=256)
    tables = [image.section(".debug_line") for image in images]
    assert all(b"k.mlir\0" in table for table in tables)
    assert tables[0].count(b"k.mlir") == tables[1].count(b"k.mlir")


@pytest.mark.parametrize("words, name", [
    (("-O0", "-g"), "--device-debug"), (("--sanitize=memcheck",), "--sanitize"),
    (("--apply-controls=k.mlir",), "--apply-controls"), (("--ptxas=/bin/true",), "--ptxas"),
])  # fmt: skip
def test_options_of_the_program_only_are_refused(library, kernel, capsys, words, name):
    assert main(["k.mlir", "--gpu-name=sm_90", "--assembler=nvjitlink", *words]) == 2
    assert f"--assembler=nvjitlink takes no {name}: --assembler=ptxas does" in capsys.readouterr().err
    assert not (kernel / "elf.o").exists()


def test_refusals_are_reported_in_its_words(ptxas, library, kernel, capsys):
    for assembler in ("ptxas", "nvjitlink"):
        words = ["k.mlir", "--gpu-name=sm_90", f"--assembler={assembler}", "--ptxas-options=--nonsense"]
        assert main(words) == 5
        assert "ptxas fatal   : Unknown option '-nonsense'" in capsys.readouterr().err
        (kernel / "bad.ptx").write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { nop; }\n")
        assert main(["bad.ptx", "--gpu-name=sm_90", f"--assembler={assembler}"]) == 5
        err = capsys.readouterr().err
        assert re.search(r"ptxas kernel.ptx, line 4; (error|fatal) +: ", err), err
        assert "NVJITLINK" not in err


def test_a_missing_library_names_the_package(kernel, capsys, monkeypatch):
    monkeypatch.setattr(nvjitlink, "LIBRARIES", ("lib/nothing",))
    assert main(["k.mlir", "--gpu-name=sm_90", "--assembler=nvjitlink"]) == 2
    err = capsys.readouterr().err
    assert "could not find libnvJitLink" in err and "install the package 'nvidia-nvjitlink'" in err


def test_an_invalid_library_is_reported(kernel, capsys, monkeypatch):
    monkeypatch.setattr(nvjitlink, "find", lambda location=None: str(kernel / "k.mlir"))
    assert main(["k.mlir", "--gpu-name=sm_90", "--assembler=nvjitlink"]) == 5
    assert "nvjitlink failed: " in capsys.readouterr().err


def test_time_and_death_are_reported(library, kernel, capsys, monkeypatch):
    """A helper is forked from this process, and inherits the functions patched here."""

    def slow(**arguments):
        import time

        time.sleep(100)

    for function, words, result in ((slow, ("--child-timeout=1",), "Child timed out: nvjitlink after 1 s"),
                                  (lambda **arguments: os.abort(), (), "nvjitlink failed: SIGABRT")):  # fmt: skip
        helper.stop()
        monkeypatch.setattr(nvjitlink_library, "link", function)
        assert main(["k.mlir", "--gpu-name=sm_90", "--assembler=nvjitlink", *words]) == 5
        assert result in capsys.readouterr().err
    helper.stop()


def test_the_assembler_is_part_of_the_key(library, monkeypatch):
    from tileiras import pipeline
    from tileiras.codegen.assembler import tool_identity

    row = pipeline.stage("cubin")
    program, linked = (
        CompileOptions({"gpu-name": "sm_90", "assembler": word}) for word in ("ptxas", "nvjitlink")
    )
    assert program.canonical(row.options) != linked.canonical(row.options)
    assert tool_identity(row.select(program)).startswith("ptxas-")
    assert re.match(r"nvjitlink-1\d-1\d\.\d+-\d+", tool_identity(row.select(linked)))
    monkeypatch.setattr(nvjitlink, "LIBRARIES", ())
    assert tool_identity(row.select(linked)) == "nvjitlink-missing"


def test_a_section_is_added_behind_the_others(ptxas):
    image = assembled("saxpy", "ptxas", api.compile(str(EXAMPLES / "saxpy.mlir"), gpu_name="sm_90").data)[0]
    longer = with_section(image, ".extra", 1, b"content", 8)
    before, after = ObjectFile(image), ObjectFile(longer)
    assert after.names == [*before.names, ".extra"] and after.section(".extra") == b"content"
    assert all(after.section(name) == before.section(name) for name in before.names if name != ".shstrtab")
    assert after.symbols() == before.symbols()
