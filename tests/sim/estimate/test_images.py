"""Images that can be estimated, and the diagnostics of images that cannot."""

import json

import pytest

import tileiras
from tests.machine_code import needs_tools
from tileiras.codegen import ptxas
from tileiras.codegen.object_file import Cubin
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.sim.estimate import images
from tileiras.targets.rates import gpu

pytestmark = needs_tools

SOURCE = "examples/bytecode/matmul_f16.tileirbc"
ENTRY = "matmul_f16"


@pytest.fixture(scope="module")
def artifact():
    return tileiras.compile(SOURCE, gpu_name="sm_80", emit="cubin")


@pytest.fixture(scope="module")
def ptx(artifact) -> str:
    return artifact.kernels[0].artifacts[".ptx"].decode()


def refusal(*arguments) -> CompileError:
    with pytest.raises(CompileError) as error:
        images.load(*arguments)
    assert error.value.code == ExitCode.CONFIGURATION
    return error.value


def said(error: CompileError) -> str:
    return error.render()


def test_every_form_of_one_kernel_is_the_same_machine_code(artifact, ptx, tmp_path):
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    for suffix, data in ((".ptx", ptx.encode()), (".cubin", artifact.data), (".json", json.dumps(metadata).encode())):
        (tmp_path / f"kernel{suffix}").write_bytes(data)
    lines = tileiras.compile(SOURCE, gpu_name="sm_80", emit="cubin", lineinfo=True)
    on = gpu("A100")
    items = [
        images.load(artifact, ENTRY, on),
        images.load(ptx, ENTRY, on, metadata),
        images.load(ptx.encode(), ENTRY, on, metadata["kernels"][0]),
        images.load(lines.data, ENTRY, on, metadata),
        images.load(tmp_path / "kernel.cubin", ENTRY, on),
        images.load(str(tmp_path / "kernel.ptx"), ENTRY, on),
    ]
    plain = [[each._replace(ptx_line=0, source=None) for each in image.code.instructions] for image in items]
    assert all(each == plain[0] for each in plain)
    shared = artifact.kernels[0].metadata["shared_memory"]
    assert shared > 0 and {image.shared for image in items} == {shared}
    assert {image.code.registers for image in items} == {items[0].code.registers}
    for image in items:
        text = image.ptx.split("\n")
        products = [each for each in image.code.instructions if each.opcode == "HMMA"]
        assert products and all(text[each.ptx_line - 1].lstrip().startswith("mma.sync") for each in products)


def test_a_cubin_of_another_level_is_found_again(tmp_path):
    artifact = tileiras.compile(SOURCE, gpu_name="sm_80", emit="cubin", opt_level=1)
    image = images.load(artifact, ENTRY, gpu("A100"))
    assert {each.ptx_line for each in image.code.instructions} != {0}


def test_ptx_of_an_older_chip_is_assembled_for_the_gpu():
    artifact = tileiras.compile(SOURCE, gpu_name="sm_80", emit="ptx")
    assert images.load(artifact, ENTRY, gpu("L4")).code.target == "sm_89"
    assert images.load(artifact, ENTRY, gpu("H200")).code.target == "sm_90"


def test_images_of_another_target_are_refused(artifact, ptx):
    error = refusal(artifact, ENTRY, gpu("T4"))
    assert "machine code for sm_80 does not run on T4, which is sm_75" in said(error)
    assert "compile with --gpu-name sm_75" in said(error)
    assert "PTX for sm_80 does not run on T4" in said(refusal(ptx, ENTRY, gpu("T4")))
    only = ptx.replace(".target sm_80", ".target sm_90a")
    assert "PTX for sm_90a does not run on B200, which is sm_100" in said(refusal(only, ENTRY, gpu("B200")))


def test_a_cubin_without_ptx_is_refused_with_the_option_to_add(artifact):
    error = refusal(artifact.data, ENTRY, gpu("A100"))
    assert "does not have its PTX" in said(error)
    assert "--lineinfo" in said(error) and ".ptx beside the .cubin" in said(error)


def test_a_cubin_beside_ptx_of_another_kernel_is_refused(artifact, ptx, tmp_path):
    (tmp_path / "kernel.cubin").write_bytes(artifact.data)
    (tmp_path / "kernel.ptx").write_text(ptx.replace("mov.u32 \t%r1, %ctaid.x;", "mov.u32 %r1, %ctaid.z;", 1))
    error = refusal(tmp_path / "kernel.cubin", ENTRY, gpu("A100"))
    assert "other machine code of the PTX" in said(error) and "--lineinfo" in said(error)


def test_shared_memory_that_the_launch_sizes_has_to_be_known(ptx):
    error = refusal(ptx, ENTRY, gpu("A100"))
    assert "how much shared memory" in said(error) and "NAME.json" in said(error)


def test_an_entry_that_is_not_there_is_said(artifact, ptx):
    for image in (artifact, ptx, artifact.data):
        with pytest.raises(CompileError, match="no entry 'other'") as error:
            images.load(image, "other", gpu("A100"))
        assert ENTRY in error.value.render()


def test_products_before_ptx_and_other_texts_are_refused(tmp_path):
    early = tileiras.compile(SOURCE, gpu_name="sm_80", emit="tileas")
    assert "emit='ptx'" in said(refusal(early, ENTRY, gpu("A100")))
    with pytest.raises(CompileError, match="neither PTX nor a cubin"):
        images.load("cuda_tile.module @m {\n}\n", ENTRY, gpu("A100"))
    with pytest.raises(CompileError, match="cannot read"):
        images.load(tmp_path / "absent.ptx", ENTRY, gpu("A100"))
    with pytest.raises(CompileError, match="not a cubin"):
        images.load(b"\x7fELF" + bytes(90), ENTRY, gpu("A100"))
    (tmp_path / "bad.ptx").write_text(".version 8.0\n.target sm_80\n.visible .entry k() { nonsense; }\n")
    (tmp_path / "bad.json").write_text("[]")
    assert "no launch description" in said(refusal(tmp_path / "bad.ptx", "k", gpu("A100")))
    (tmp_path / "bad.json").unlink()
    with pytest.raises(CompileError, match="ptxas failed"):
        images.load(tmp_path / "bad.ptx", "k", gpu("A100"))


def test_hidden_parameters_need_the_cubin(ptx):
    text = ptx.replace(".param .u32 matmul_f16_param_14", ".param .u32 matmul_f16_param_14,\n\t.hidden .param .u64 map")
    assert text != ptx
    text = text.replace(f".version {text.split('.version ')[1][:3]}", ".version 8.8")
    assert "hidden parameters" in said(refusal(text, ENTRY, gpu("A100"), {"shared_memory": 0}))


def test_line_information_is_read_from_ptxas_output(ptx):
    assert Cubin(images.assemble(ptx, "sm_80")).has_ptx_lines
    assert not Cubin(ptxas.assemble(ptx, "sm_80").cubin).has_ptx_lines
