"""Tensor maps that the host's code in a cubin fills: on every platform, and for kernels that are then executed."""

import random
import re
import struct
import subprocess

import numpy as np
import pytest
import unicorn
from unicorn import arm64_const as arm
from unicorn import x86_const as x86

import tileiras
from tests.kernels.dots import matmul
from tests.kernels.views import Kernel
from tileiras.cli.tileiras import main
from tileiras.codegen import cubin_host, host_code, host_tensor_maps, toolkit
from tileiras.codegen.host_machine_code import CODE
from tileiras.codegen.object_file import Cubin, ObjectFile
from tileiras.options import GPU_NAMES
from tileiras.sim import emulate
from tileiras.sim.emulator import tensor_map
from tileiras.sim.emulator.launch.emulation import hidden_parameters
from tileiras.targets.sm import TARGETS

CODE_AT, STACK_AT, PARAMETERS_AT, RETURN_AT, PAGE = 0x10000, 0x40000, 0x60000, 0x90000, 0x1000
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "ptr<f16>": 8}


def called(platform: tuple[str, str], code: bytes, parameters: bytes) -> bytes:
    """The parameters after a call with their address as fourth argument."""
    architecture, system = platform
    if architecture == "x86_64":
        machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        fourth, stack, result = x86.UC_X86_REG_RCX if system == "linux" else x86.UC_X86_REG_R9, x86.UC_X86_REG_RSP, \
            x86.UC_X86_REG_RAX  # fmt: skip
    else:
        machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        fourth, stack, result = arm.UC_ARM64_REG_X3, arm.UC_ARM64_REG_SP, arm.UC_ARM64_REG_X0
        machine.reg_write(arm.UC_ARM64_REG_X30, RETURN_AT)
    for place in (CODE_AT, STACK_AT, PARAMETERS_AT, RETURN_AT):
        machine.mem_map(place, 4 * PAGE)
    machine.mem_write(CODE_AT, code)
    machine.mem_write(PARAMETERS_AT, parameters)
    top = STACK_AT + 2 * PAGE - 8
    machine.mem_write(top, struct.pack("<Q", RETURN_AT))
    machine.reg_write(stack, top if architecture == "x86_64" else STACK_AT + 2 * PAGE)
    machine.reg_write(fourth, PARAMETERS_AT)
    machine.emu_start(CODE_AT, RETURN_AT)
    assert machine.reg_read(result) & 0xFFFFFFFF == 0
    return bytes(machine.mem_read(PARAMETERS_AT, len(parameters)))


def random_kernel(seed: int) -> tuple[dict, bytearray]:
    """A kernel of NAME.json with a few tensor maps, and its packed parameters, hidden ones not filled."""
    choose = random.Random(seed)
    data, parameters = bytearray(), []

    def parameter(type: str, value: int) -> str:
        size = SIZES[type]
        data.extend(bytes(-len(data) % size))
        parameters.append({"type": type, "offset": len(data), "size": size})
        data.extend((value & (1 << 8 * size) - 1).to_bytes(size, "little"))
        return f"p{len(parameters) - 1}"

    def number(value: int) -> str:
        kinds = [None, *(name for name, size in SIZES.items() if name[0] == "i" and value < 1 << 8 * size - 1)]
        kind = choose.choice(kinds)
        return str(max(value, 1)) if kind is None else parameter(kind, value)

    fills = []
    for _ in range(choose.randint(1, 3)):
        element = choose.choice(["f16", "bf16", "f32", "tf32", "i8", "f8E4M3FN", "i32", "i64", "f64"])
        size = tensor_map.ELEMENTS[{"tf32": "f32", "i8": "u8", "f8E4M3FN": "u8", "i32": "s32", "i64": "s64"}
                                   .get(element, element)][1]  # fmt: skip
        rank = choose.randint(1, 5)
        dims = [number(choose.choice([0, 1, 17, 100, 40_000, 3_000_000_000])) for _ in range(rank)]
        strides = [number(16 // size * choose.choice([1, 5, 1000, 100_000_000])) for _ in range(rank - 1)]
        row, swizzle = choose.choice([(32, "32"), (64, "64"), (128, "128"), (16, "0"), (128, "128_atom_32")])
        box = [row // size, *(choose.choice([1, 8, 256]) for _ in range(rank - 1))]
        address = parameter("ptr<f16>", choose.randrange(0, 1 << 40, 16))
        words = [f"tensor_map element={element} address={address} dims={','.join(dims)}"]
        words += [f"strides={','.join(strides)}"] if strides else []
        words += [f"box={','.join(map(str, box))}", f"swizzle={swizzle}", choose.choice(["oob=nan", "oob=zero"])]
        fills.append(" ".join(words))
    first = len(data) + -len(data) % 64
    hidden = [
        {"name": f"h{index}", "offset": first + 128 * index, "size": 128, "fill": fill}
        for index, fill in enumerate(fills)
    ]
    return {"parameters": parameters, "hidden_parameters": hidden}, data.ljust(first + 128 * len(fills), b"\0")


@pytest.mark.parametrize("bank_start", [0, 0x210, 0x380])
@pytest.mark.parametrize("platform", CODE, ids="-".join)
def test_the_code_fills_the_described_parameters(platform, bank_start):
    for seed in range(25):
        kernel, data = random_kernel(seed)
        table = host_tensor_maps.table(kernel, bank_start)
        image = ObjectFile(host_code.host_object([host_code.HostKernel("k", table)], *platform))
        _, at, size = image.symbols()[f"{host_code.ARGUMENTS_CHANGE}0"]
        code = image.section(f".{CODE[platform].prefix}text")[at : at + size]
        declared = max(each["offset"] + each["size"] for each in kernel["parameters"])
        place = declared + -(bank_start + declared) % 64
        count = len(kernel["hidden_parameters"])
        before = bytes(data[:declared]).ljust(place, b"\0") + bytes(tensor_map.BYTES * count + 8)
        after = called(platform, code, before)
        hidden_parameters.fill(kernel, data)
        wanted = bytes(data[kernel["hidden_parameters"][0]["offset"] :])
        result = bytearray(after[place : place + len(wanted)])
        for at in range(0, len(result), tensor_map.BYTES):
            result[at + 10] &= ~(1 << 2)  # the hint that only code for hosts has
        assert result == wanted and after[:place] == before[:place] and not any(after[place + len(wanted) :]), seed


def test_unfillable_parameters_are_reported():
    kernel, _ = random_kernel(0)
    fill = kernel["hidden_parameters"][0]
    for change in (" interleave=16", ""):
        fill["fill"] = fill["fill"] + change if change else "the weather"
        with pytest.raises(ValueError, match="no host code|no tensor map"):
            host_tensor_maps.table(kernel, 0)
    assert host_tensor_maps.table({**kernel, "hidden_parameters": []}, 0) == b""


def _tiles(gpu: str, **options) -> tuple[Kernel, tileiras.Artifact]:
    kernel = matmul((128, 64, 64), steps=4)
    return kernel, kernel.compiled(gpu, emit="cubin", tensor_maps="host", tile_launch=True, **options)


@pytest.mark.parametrize(("gpu", "assembler"), [
    ("sm_90", "ptxas"), ("sm_100", "ptxas"), ("sm_120", "ptxas"), ("sm_90", "nvjitlink"),
])  # fmt: skip
def test_a_cubin_fills_the_maps_of_its_kernels(ptxas, gpu, assembler):
    kernel, artifact = _tiles(gpu, host_arch="x86_64", host_os="linux", assembler=assembler)
    text = artifact.kernels[0].artifacts[".ptx"].decode()
    assert text.count(".hidden .param") == len(artifact.kernels[0].metadata["hidden_parameters"]) >= 2
    result = [array.copy() for array in kernel.outputs]
    arguments = [*(each.view(np.uint16) for each in kernel.inputs), *result]
    emulate(text, "k", kernel.grid, arguments, hidden=cubin_host.hidden_parameters(artifact.data, "k"))
    for got, wanted in zip(result, kernel.expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    kernel.emulated(artifact, ptx=text)  # by NAME.json, for launchers that read it


def test_the_vendor_s_code_fills_the_same(ptxas, tmp_path):
    tool = toolkit.find_program("tileiras")
    if tool is None:
        pytest.skip("no vendor tool")
    kernel, artifact = _tiles("sm_90", host_arch="x86_64", host_os="linux")
    bytecode = tileiras.compile(kernel.text, gpu_name="sm_90", emit="bytecode", bytecode_version="13.3").data
    (tmp_path / "k.bc").write_bytes(bytecode)
    subprocess.run([tool, tmp_path / "k.bc", "--gpu-name=sm_90", "--lineinfo", "-o", tmp_path / "vendor"], check=True)
    values = [struct.pack("<Q", 0x7F0000001000 + number * 0x100000) for number in range(3)]
    items: list[set[bytes]] = []
    for cubin in (artifact.data, (tmp_path / "vendor").read_bytes()):
        text = Cubin(cubin).embedded_ptx() or artifact.kernels[0].artifacts[".ptx"].decode()
        count = len(re.findall(r"\.hidden\s+\.param", text))
        fill = cubin_host.hidden_parameters(cubin, "k")
        maps = {bytes(each[: tensor_map.USED]) for each in fill(values, [tensor_map.BYTES] * count)}
        # Each cuts the result into boxes of its own.
        items.append({each for each in maps if not each.startswith(values[2])})
    assert items[0] == items[1] and len(items[0]) == 2


@pytest.mark.parametrize("gpu", GPU_NAMES)
def test_parameters_are_where_the_target_has_them(ptxas, gpu):
    artifact = matmul((64, 32, 32), steps=1).compiled(gpu, emit="cubin")
    assert Cubin(artifact.data).parameter_base("k") == TARGETS[gpu].parameter_bank


def test_a_host_without_code_is_an_error(ptxas, tmp_path, capsys, monkeypatch):
    (tmp_path / "k.mlir").write_text(matmul((128, 64, 64), steps=4).text)
    monkeypatch.setattr(host_code, "platform_of", lambda *_: None)
    words = [str(tmp_path / "k.mlir"), "--gpu-name=sm_90", "-o", str(tmp_path / "k.cubin")]
    assert main([*words, "--tensor-maps=host"]) == 2
    assert "takes tensor maps, which a tile launch does not make" in capsys.readouterr().err
    assert not (tmp_path / "k.cubin").exists()
    assert main(words) == 0
