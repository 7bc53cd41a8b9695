"""NAME.resources.json: the report of ptxas, with the resources that the launch adds."""

import json
from pathlib import Path

import pytest

from tileiras import api
from tileiras.codegen import kernel_metadata, ptx, toolkit
from tileiras.codegen.kernel_resources import kernel_resources, resources_json
from tileiras.codegen.ptxas import Resources

HEAD = ".version 7.8\n.target sm_90\n.address_size 64\n"
DYNAMIC = ".extern .shared .align 16 .b8 memory[];\n"
ENTRY = ".visible .entry k() .reqntid 128 {\nret;\n}\n"
USED = {"k": Resources(64, 0, 0, 0, 1, 1024, 528)}


def row(text: str, launches: dict[str, int]) -> dict:
    kernels = kernel_resources(ptx.parse(text), text, USED, launches)
    document = json.loads(resources_json(kernels))
    assert document["format"] == 2
    return document["kernels"]["k"]


def test_launch_additions_count_for_smem_and_occupancy():
    result = row(HEAD + DYNAMIC + ENTRY, {"k": 98304})
    assert (result["shared"], result["dynamic_shared"], result["registers"]) == (99328, 98304, 64)
    limit = "99328 bytes of shared memory a CTA"
    assert result["occupancy"] == {"ctas": 2, "warps": 8, "most_warps": 64, "limit": limit}


def test_resources_without_a_report_are_null():
    result = row(HEAD + DYNAMIC + ENTRY, {})
    assert (result["shared"], result["dynamic_shared"], result["occupancy"]) == (None, None, None)


def test_a_module_without_launch_array_is_unchanged():
    # As of a tile launch, whose description has the bytes that the module itself declares.
    result = row(HEAD + ENTRY, {"k": 98304})
    assert (result["shared"], result["dynamic_shared"]) == (1024, 0)
    assert result["occupancy"]["ctas"] == 8


def test_launch_memory_is_read_of_descriptions_only():
    text = b'{"format": 1, "kernels": [{"name": "k", "shared_memory": 512}]}'
    assert kernel_metadata.launch_memory(text) == {"k": 512}
    assert kernel_metadata.launch_memory(kernel_metadata.merge([text, text.replace(b'"k"', b'"l"')])) == {
        "k": 512, "l": 512,
    }  # fmt: skip
    for other in (None, b"", b"[]", b"\xff", b'{"format": 2, "kernels": []}', b'{"format": 1, "kernels": [{}]}'):
        assert kernel_metadata.launch_memory(other) == {}


EXAMPLE = Path(__file__).parents[2] / "examples" / "matmul_f32.mlir"


@pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")
def test_resuming_from_an_artifact_keeps_its_resource_usage(tmp_path):
    whole = api.compile(EXAMPLE, gpu_name="sm_90", emit="cubin").kernels[0]
    expected = json.loads(whole.artifacts[".resources.json"])["kernels"]["matmul_f32"]
    assert expected["shared"] == whole.metadata["shared_memory"] > 0
    for emit, known in (("tileas", True), ("llvm", True), ("ptx", False)):
        result = api.compile(EXAMPLE, gpu_name="sm_90", emit=emit)
        path = tmp_path / f"kernel{result.suffix}"
        path.write_bytes(result.data)
        artifacts = api.compile(path, gpu_name="sm_90", emit="cubin").kernels[0].artifacts
        entry = json.loads(artifacts[".resources.json"])["kernels"]["matmul_f32"]
        unknown = {"shared": None, "dynamic_shared": None, "occupancy": None}
        assert entry == (expected if known else {**expected, **unknown})
