"""Fat binaries: the container beside that of the vendor's tools, and the file of the command."""

import json
import re
import struct
import subprocess

import pytest

import tileiras
from tileiras.build import fat_binary
from tileiras.cli.tileiras import main
from tileiras.codegen import ptxas, toolkit
from tileiras.diagnostics import CompileError
from tileiras.stages import fatbin
from tileiras.stages.fatbin import BYTECODE, CUBIN, PTX, Image

KERNEL = """\
cuda_tile.module @m {
  entry @first(%p: tile<ptr<f32>>) {
    return
  }
  entry @second(%p: tile<ptr<f32>>) {
    return
  }
}
"""


def vendors(*names: str) -> list[str]:
    result = [toolkit.find_program(name) for name in names]
    if None in result:
        pytest.skip(f"needs {', '.join(names)}")
    return result


def empty_kernel(gpu: str, name: str = "k") -> str:
    return f".version 8.8\n.target {gpu}\n.address_size 64\n.visible .entry {name}() {{ ret; }}\n"


@pytest.mark.parametrize("targets", [("sm_80", "sm_90a"), ("sm_100", "sm_100f")])
def test_the_bytes_are_those_of_fatbinary(tmp_path, targets):
    program, _ = vendors("fatbinary", "ptxas")
    code = tileiras.compile(KERNEL, gpu_name="sm_90", emit="bytecode").data
    images, words = [], []
    for number, target in enumerate(targets):
        text = empty_kernel(target, "k" * (1 + 3 * number))  # of another length modulo 8
        images.append(Image(CUBIN, target, ptxas.assemble(text, target).cubin))
        images.append(Image(PTX, target, text.encode()))
    for number, image in enumerate((*images, Image(BYTECODE, "", code))):
        (tmp_path / str(number)).write_bytes(image.data)
        kind = {CUBIN: "elf", PTX: "ptx", BYTECODE: "tileir"}[image.form]
        words.append(f"--image3=kind={kind},sm={image.target[3:] or fatbin.BYTECODE_ARCH},file={number}")
    process = subprocess.run(
        [program, "--64", "--create=all", "--compress=false", *words], cwd=tmp_path, capture_output=True, text=True
    )
    if process.returncode and "tileir" in process.stderr + process.stdout:
        pytest.skip("a fatbinary before Tile IR")
    assert process.returncode == 0, process.stderr
    assert _entries(fatbin.build([*images, Image(BYTECODE, "", code)])) == _entries((tmp_path / "all").read_bytes())


def _entries(data: bytes) -> list[bytes]:
    """The entries of a fat binary in an order by their bytes."""
    magic, version, start, size = struct.unpack_from("<IHHQ", data)
    assert (magic, version, start, size) == (0xBA55ED50, 1, 16, len(data) - 16)
    result, at = [], start
    while at < len(data):
        head, payload = struct.unpack_from("<IQ", data, at + 4)
        result.append(data[at : at + head + payload])
        at += head + payload
    assert at == len(data)
    return sorted(result)


def test_the_command_makes_one_file_for_all_gpus(tmp_path, monkeypatch, capfd):
    (program, _) = vendors("cuobjdump", "ptxas")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.mlir").write_text(KERNEL)
    words = ["m.mlir", "--emit=fatbin", "--gpu-name=sm_90,sm_80,sm_90", "-O1"]
    assert main(words) == main([*words, "-o", "again"]) == 0, capfd.readouterr().err
    assert (tmp_path / "m.fatbin").read_bytes() == (tmp_path / "again").read_bytes()
    listed = subprocess.run([program, "--list-elf", "--list-ptx", "m.fatbin"], capture_output=True, text=True).stdout
    assert re.findall(r"(ELF|PTX) file.*\.(sm_\d+)\.", listed) == [("ELF", "sm_90"), ("ELF", "sm_80"), ("PTX", "sm_90")]
    subprocess.run([program, "-xelf", "sm_80", "m.fatbin"], check=True, capture_output=True)
    (extracted,) = tmp_path.glob("*.cubin")
    assert main(["m.mlir", "--gpu-name=sm_80", "-O1", "-o", "sm_80"]) == 0
    assert extracted.read_bytes() == (tmp_path / "sm_80").read_bytes()
    assert b"\x7fTileIR" in (tmp_path / "m.fatbin").read_bytes()
    assert main([*words, "--tile-launch=false"]) == 0
    assert b"\x7fTileIR" not in (tmp_path / "m.fatbin").read_bytes()


@pytest.mark.parametrize(("words", "code", "text"), [
    (["--gpu-name=sm_80,sm_90"], 1, "--emit=fatbin takes several GPUs"),
    (["--gpu-name=sm_80,cpu", "--emit=fatbin"], 2, "no code for target cpu"),
    (["--gpu-name=sm_80,sm_1", "--emit=fatbin"], 1, "sm_80,sm_1"),
    (["--gpu-name=sm_80", "--emit=fatbin", "--save-temps"], 1, "save-temps"),
    (["--emit=fatbin"], 2, "gpu-name takes"),
])  # fmt: skip
def test_command_lines_that_are_refused(tmp_path, monkeypatch, capfd, words, code, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.mlir").write_text(KERNEL)
    assert main(["m.mlir", *words]) == code
    assert text in capfd.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["m.mlir"]


def test_artifacts_of_later_stages_are_refused(tmp_path):
    (tmp_path / "m.ptx").write_text(empty_kernel("sm_80"))
    with pytest.raises(CompileError, match="unable to make a fat binary of"):
        tileiras.compile(tmp_path / "m.ptx", gpu_name="sm_80", emit="fatbin")


def test_a_fat_binary_needs_a_gpu():
    with pytest.raises(CompileError, match="gpu-name takes"):
        tileiras.compile(KERNEL, gpu_name=None, emit="fatbin")


def test_ptx_is_of_the_newest_target_without_a_letter():
    assert fatbin.newest(["sm_80", "sm_120", "sm_100"]) == "sm_120"
    assert fatbin.newest(["sm_80", "sm_90a", "sm_100f"]) == "sm_80"
    assert fatbin.newest(["sm_90a"]) is None


@pytest.mark.parametrize("image", [
    Image(CUBIN, "sm_80", b"//"), Image(PTX, "sm_80", b"\x7fELF"), Image(BYTECODE, "", b"module"),
])  # fmt: skip
def test_images_of_another_form_are_refused(image):
    with pytest.raises(CompileError, match=f"is no {image.form}"):
        fatbin.build([image])


def test_the_library_describes_every_image():
    vendors("ptxas")
    artifact = tileiras.compile(KERNEL, gpu_name="sm_80,sm_90", emit="fatbin")
    assert [kernel.name for kernel in artifact.kernels] == ["first", "second"]
    document = json.loads(artifact.kernels[0].artifacts[fatbin.DESCRIPTION])
    described = [(i["form"], i["target"], [k["name"] for k in i["kernels"]]) for i in document["images"]]
    both = ["first", "second"]
    assert described == [(CUBIN, "sm_80", both), (CUBIN, "sm_90", both), (PTX, "sm_90", both)]
    assert fat_binary.named_targets("sm_90,sm_80,sm_90") == ["sm_90", "sm_80"]
    with pytest.raises(ValueError, match="is no text"):
        artifact.text
