"""Kernels for the driver's tile launch, compared with the vendor's where its compiler is installed."""

import json
import struct
import subprocess

import numpy as np
import pytest
from invocations import KERNEL

import tileiras
from tileiras import sim
from tileiras.cli.tileiras import main
from tileiras.codegen import host_code, toolkit
from tileiras.options import GPU_NAMES

BLOCK = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) optimization_hints=<sm_90 = {num_cta_in_cga = CTAS}> {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %row = muli %y, %nx : tile<i32>
    %at = addi %row, %x : tile<i32>
    %a = offset %p, %at : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %t = store_ptr_tko weak %a, %ny : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""

LANGUAGE, PARAMETER, REQUIRED_THREADS, CLUSTER, BLOCKS_ARE_CLUSTERS = 0x66, 0x17, 0x10, 0x3D, 0x5B


def sections(image: bytes) -> dict[str, bytes]:
    """The sections of a 64-bit ELF file that have content."""
    (start,) = struct.unpack_from("<Q", image, 0x28)
    number, names = struct.unpack_from("<HH", image, 0x3C)
    rows = [struct.unpack_from("<IIQQQQIIQQ", image, start + 64 * row) for row in range(number)]
    text = rows[names][4]
    nobits = 8
    return {
        image[text + row[0] : image.index(b"\0", text + row[0])].decode(): image[row[4] : row[4] + row[5]]
        for row in rows
        if row[1] != nobits
    }


def information(image: bytes, entry: str = "k") -> dict[int, list[bytes]]:
    """The attributes that a cubin has for an entry: number -> values."""
    data = sections(image)[f".nv.info.{entry}"]
    result: dict[int, list[bytes]] = {}
    at = 0
    while at < len(data):
        form, number, value = struct.unpack_from("<BBH", data, at)
        at += 4
        payload = data[at : at + value] if form == 4 else struct.pack("<H", value)
        at += value if form == 4 else 0
        result.setdefault(number, []).append(payload)
    return result


def ours(folder, text: str, gpu: str, *options: str) -> bytes:
    (folder / "k.mlir").write_text(text)
    assert main([str(folder / "k.mlir"), "--gpu-name", gpu, "-o", str(folder / "k.cubin"), *options]) == 0
    return (folder / "k.cubin").read_bytes()


@pytest.mark.parametrize("gpu", GPU_NAMES)
def test_cubins_of_the_command_are_tile_kernels(ptxas, tmp_path, gpu):
    image = ours(tmp_path, KERNEL.replace("TYPE", "f32"), gpu)
    assert information(image)[LANGUAGE] == [struct.pack("<I", 7)]
    assert b"\0___NV_TILE_LAUNCH_META_DATA___\0" in sections(image)[".strtab"]


@pytest.mark.parametrize("words, platform", [
    (["--host-arch=aarch64", "--host-os=windows"], ("aarch64", "windows")),
    (["--host-arch=x86_64", "--host-os=linux"], ("x86_64", "linux")),
])  # fmt: skip
def test_the_host_has_its_callbacks(ptxas, tmp_path, words, platform):
    image = ours(tmp_path, KERNEL.replace("TYPE", "f32"), "sm_90", *words)
    assert sections(image)[".nv.host"] == host_code.host_object([host_code.HostKernel("k")], *platform)


def test_a_cubin_can_be_an_ordinary_kernel(ptxas, tmp_path):
    image = ours(tmp_path, KERNEL.replace("TYPE", "f32"), "sm_90", "--tile-launch=false")
    assert information(image)[LANGUAGE] != [struct.pack("<I", 7)]
    assert b"META_DATA" not in sections(image)[".strtab"] and ".nv.host" not in sections(image)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("ctas", ["1", "2"])
def test_the_driver_gets_the_vendors_options(ptxas, tmp_path, gpu, ctas):
    tool = toolkit.find_program("tileiras")
    if tool is None:
        pytest.skip("no vendor tool")
    text = BLOCK.replace("CTAS", ctas).replace("sm_90", gpu)
    image = ours(tmp_path, text, gpu)
    bytecode = tileiras.compile(text, gpu_name=gpu, emit="bytecode", bytecode_version="13.3").data
    (tmp_path / "k.bc").write_bytes(bytecode)
    subprocess.run([tool, tmp_path / "k.bc", "--gpu-name", gpu, "-o", tmp_path / "vendor"], check=True)
    vendor = (tmp_path / "vendor").read_bytes()
    for number in (LANGUAGE, PARAMETER, CLUSTER, BLOCKS_ARE_CLUSTERS):
        assert information(image).get(number) == information(vendor).get(number), hex(number)
    # Both state the number of threads of a tile block; each compiler chooses its own.
    threads = [struct.unpack("<III", information(item)[REQUIRED_THREADS][0]) for item in (image, vendor)]
    assert all(y == z == 1 and x % 32 == 0 for x, y, z in threads)
    assert set(sections(vendor)) == set(sections(image))
    assert (CLUSTER in information(image)) is (ctas == "2" and gpu != "sm_80")


@pytest.mark.parametrize("gpu, register", [("sm_89", "%ctaid"), ("sm_90", "%clusterid"), ("sm_120", "%clusterid")])
@pytest.mark.in_process
def test_tile_blocks_are_clusters_where_there_are_any(gpu, register):
    text = tileiras.compile(BLOCK.replace("CTAS", "1"), gpu_name=gpu, tile_launch=True).text
    assert f"{register}.x" in text and f"{register.replace('%', '%n')}.x" in text
    assert ("%ctaid" in text) is (register == "%ctaid")
    memory = np.zeros(6, np.int32)
    sim.emulate(text, "k", (3, 2, 1), [memory])
    assert memory.tolist() == [2] * 6


@pytest.mark.in_process
def test_no_parameter_is_hidden_and_no_memory_dynamic():
    result = tileiras.compile("examples/matmul_f32.mlir", gpu_name="sm_90", tile_launch=True)
    (kernel,) = result.kernels
    assert kernel.metadata["tile_launch"] is True and kernel.metadata["hidden_parameters"] == []
    assert kernel.metadata["shared_memory"] > 0
    assert ".extern .shared" not in result.text and f"[{kernel.metadata['shared_memory']}];" in result.text


def test_kernels_of_one_module_have_memories_of_their_own(ptxas, tmp_path):
    with open("examples/matmul_f32.mlir") as file:
        text = file.read()
    end = text.rstrip().rindex("}")
    entry = text[text.index("entry @") : end]
    text = text[:end] + entry.replace("@matmul_f32", "@second") + text[end:]
    image = ours(tmp_path, text, "sm_80")
    for name in ("matmul_f32", "second"):
        assert information(image, name)[LANGUAGE] == [struct.pack("<I", 7)]
    resources = tileiras.compile(text, gpu_name="sm_80", emit="cubin", tile_launch=True).kernels[1].artifacts
    used = json.loads(resources[".resources.json"])["kernels"]
    assert used["second"]["shared"] == used["matmul_f32"]["shared"] > 0


@pytest.mark.parametrize("release, hint", [("12.9.86", True), ("13.1.80", True), ("13.2.1", False), ("unknown", False)])
@pytest.mark.in_process
def test_an_old_ptxas_is_named_as_the_reason(tmp_path, capsys, monkeypatch, release, hint):
    from tileiras.codegen import ptxas
    from tileiras.diagnostics import CompileError

    def refuse(*_, **__):
        raise CompileError.at(None, "Unsupported .version 9.2; current version is '8.8'")

    monkeypatch.setattr(ptxas, "assemble", refuse)
    monkeypatch.setattr(ptxas, "version", lambda path: release)
    monkeypatch.setattr(ptxas, "find", lambda *_: "ptxas")
    (tmp_path / "k.mlir").write_text(KERNEL.replace("TYPE", "f32"))
    words = [str(tmp_path / "k.mlir"), "--gpu-name", "sm_90", "-o", str(tmp_path / "k")]
    assert main(words) == 5
    assert ("--tile-launch=false makes cubins for ordinary launches" in capsys.readouterr().err) is hint
    assert main([*words, "--tile-launch=false"]) == 5
    assert "--tile-launch" not in capsys.readouterr().err
