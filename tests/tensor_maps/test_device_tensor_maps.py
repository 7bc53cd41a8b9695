"""Tensor maps that the kernel makes itself: right under launchers that fill no map, wrong if any of their
synchronization is deleted, with a slot of the module's memory for every CTA for as long as it runs."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests import tileas_stage
from tests.agents.running import SPECIALIZED, sites, survives
from tests.kernels import tensor_maps as kernels
from tests.kernels.dots import attention_like, matmul
from tests.kernels.tensor_maps import Arrays
from tests.machine_code import assemble
from tileiras.diagnostics import DiagnosticEngine
from tileiras.driver.tileir_pipeline import tileas_passes
from tileiras.ir import parse_module, print_op
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.sim.emulator.errors import EmulationError
from tileiras.targets import occupancy, target

SEEDS = (None, 0, 1, 2)
BOX, MAP = "cp.async.bulk.tensor", "tensormap.cp_fenceproxy"


def compiled(text: str, gpu: str = "sm_90", **options):
    """With one agent, unless the options name another strategy."""
    chosen = {"pipeline_strategy": "unspecialize", **options}
    return tileiras.compile(text, gpu_name=gpu, tensor_maps="device", **chosen)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [{}, SPECIALIZED, {"tile_launch": True}], ids=["ring", "agents", "tile launch"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
def test_a_kernel_that_makes_its_maps_has_no_parameter_more(gpu, options, ptxas):
    artifact = compiled(kernels.matmul(), gpu, **options)
    assert BOX in artifact.text and artifact.text.count(MAP) >= 2
    metadata = artifact.kernels[0].metadata
    assert metadata["hidden_parameters"] == [] and len(metadata["parameters"]) == 13
    assemble(artifact.text, gpu)
    for seed in SEEDS[:3]:
        Arrays(130, 71, 160).launch(artifact.text, metadata, seed)


@pytest.mark.parametrize("sizes", [(64, 64, 0), (0, 64, 64), (64, 0, 64), (0, 0, 0), (1, 1, 1), (65, 130, 71)])
def test_arrays_of_any_size(sizes):
    artifact = compiled(kernels.matmul())
    for steps in (None, 0, 3):
        Arrays(*sizes).launch(artifact.text, artifact.kernels[0].metadata, 0, steps)


def test_the_stride_of_a_single_row_may_be_any():
    arrays = Arrays(1, 64, 48)
    arrays.a = arrays.a[:, :51].copy()
    artifact = compiled(kernels.matmul())
    arrays.launch(artifact.text, artifact.kernels[0].metadata)


TYPES = {
    "f8": ((64, 64, 128), "f8E4M3FN", {"b_by_columns": True}),
    "i8": ((64, 64, 64), "i8", {"b_by_columns": True}),
    "bf16": ((64, 32, 32), "bf16", {}),
    "tf32": ((64, 32, 32), "tf32", {}),
    "more rows than a box": ((512, 16, 16), "f16", {"steps": 2}),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_and_boxes(name, ptxas):
    tiles, element, options = TYPES[name]
    kernel = matmul(tiles, element, **{"steps": 3, **options})
    artifact = compiled(kernel.text)
    assert (MAP in artifact.text) == (BOX in artifact.text) and BOX in artifact.text
    assemble(artifact.text, "sm_90")
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_several_programs_of_one_kernel():
    kernel = attention_like(1)
    for options in ({}, SPECIALIZED):
        artifact = compiled(kernel.text, **options)
        assert MAP in artifact.text
        for seed in SEEDS[:2]:
            kernel.emulated(artifact, seed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [{}, SPECIALIZED], ids=["ring", "agents"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_synchronization_of_maps_is_minimal(gpu, options):
    artifact = compiled(kernels.matmul(), gpu, **options)
    arrays = Arrays(64, 130, 160)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed)

    assert survives(artifact.text, judge, SEEDS)
    result = sites(artifact.text)
    acquires = re.findall(r"fence\.proxy\.tensormap[^;]*;", artifact.text)
    assert len(acquires) == artifact.text.count(MAP)
    for number, match in enumerate(re.finditer(r"fence\.proxy\.tensormap[^;]*;", artifact.text)):
        broken = artifact.text[: match.start()] + artifact.text[match.end() :]
        result.append((f"acquire {number}", broken))
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []


@pytest.mark.parametrize("options", [{}, SPECIALIZED], ids=["ring", "agents"])
def test_a_slot_is_one_ctas_until_it_gives_it_back(options):
    """Six CTAs with two slots: four wait, and take over slots that others have released."""
    text = compiled(kernels.matmul(), emit="tileas", **options).text
    few = re.sub(r"slots = \d+", "slots = 2", text)
    assert few != text
    code = tileas_stage.compiled(parse_module(few), "sm_90")
    arrays = Arrays(192, 130, 64)

    def judge(changed, seed):
        # Another lane than the first is elected for copies to global memory, which read a map.
        arrays.launch(changed, {}, seed, step_limit=200_000, leader=5)

    assert survives(code, judge, SEEDS[:2])
    release = re.search(r"st\.release\.gpu[^;]*;", code)
    assert release is not None
    assert not survives(code.replace(release[0], ""), judge, SEEDS[:1])
    # The copy of a map to the slot is a release for the GPU as well, which a relaxed store behind it hands on; the
    # store's own is for the copies that have read the slot, and here all CTAs write the same maps.
    relaxed = code.replace("st.release.gpu", "st.relaxed.gpu")
    assert not survives(relaxed.replace("generic.release.gpu", "generic.release.cta"), judge, SEEDS)


def test_a_slot_that_two_ctas_take_is_a_race():
    """Maps of one launch have equal bytes, but each copy of a map counts; CTAs of one SM begin with the same slot."""
    artifact = compiled(kernels.matmul())
    claim = r"(cas\.b32\s+(%r\d+)(?:.*\n)+?\s+setp\.ne\.b32\s+%p\d+, \2), 0;"
    taken = re.sub(claim, r"\1, 1;", artifact.text, count=1)
    assert taken != artifact.text
    with pytest.raises(EmulationError, match="race on .*tensor_maps"):
        Arrays(130, 64, 32).launch(taken, artifact.kernels[0].metadata, 0)


def test_there_are_as_many_slots_as_there_can_be_ctas():
    hopper = target("sm_90")
    for tiles, warps in (((128, 64, 32), 4), ((128, 64, 32), 16), ((64, 32, 32), 4), ((256, 128, 64), 8)):
        artifact = compiled(matmul(tiles, "f16", steps=3).text, emit="tileas", num_warps=warps)
        shared = int(re.search(r"nv_tileas.shared_memory = (\d+)", artifact.text)[1])
        most = 132 * occupancy(hopper, 32 * warps, 0, shared).ctas
        assert most <= int(re.search(r"slots = (\d+)", artifact.text)[1]) < 4 * most


def test_maps_and_mbarriers_share_the_kilobyte_before_the_rings():
    """An SM holds as many CTAs of attention as with maps of the host."""
    text = attention_like(2, rows=64, columns=64, depth=64, steps=4).text
    host, device = (tileiras.compile(text, gpu_name="sm_100", emit="tileas", tensor_maps=each).text
                    for each in ("host", "device"))  # fmt: skip
    assert "map_memory.build" in device
    sizes = [re.search(r"nv_tileas.shared_memory = (\d+)", each)[1] for each in (host, device)]
    assert sizes[0] == sizes[1]


def test_sizes_that_the_kernel_computes():
    """No host knows them."""
    view = kernels.view("a", "64x32").replace(
        "assume bounded<0, ?>, %s_a_0 : tile<i32>",
        "assume bounded<0, ?>, %r_a : tile<i32>",
    )
    rows = "%r_a = maxi %s_a_0, %s_a_0 signed : tile<i32>"
    text = kernels.matmul(view).replace("%q_a = assume", f"{rows}\n    %q_a = assume")
    host = tileiras.compile(text, gpu_name="sm_90", tensor_maps="host")
    artifact = compiled(text)
    assert artifact.text.count("cp.async.cg") == 0 < host.text.count("cp.async.cg")
    for seed in SEEDS[:2]:
        Arrays(64, 64, 96).launch(artifact.text, artifact.kernels[0].metadata, seed)


def test_targets_without_boxes_make_no_maps():
    text = kernels.matmul()
    assert compiled(text, "sm_80").text == tileiras.compile(text, gpu_name="sm_80").text


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_103", "sm_110", "sm_120"])
def test_maps_by_default_where_dots_are_in_tensor_memory(gpu):
    text = kernels.matmul()
    creator = "device" if gpu.startswith(("sm_10", "sm_11")) else "none"
    assert tileiras.compile(text, gpu_name=gpu).text == tileiras.compile(text, gpu_name=gpu, tensor_maps=creator).text


def test_a_store_alone_builds_no_map():
    text = matmul((64, 64, 32), "f32", steps=3).text
    assert BOX in tileiras.compile(text, gpu_name="sm_100", tensor_maps="host").text
    assert BOX not in tileiras.compile(text, gpu_name="sm_100", tensor_maps="device").text


@pytest.mark.parametrize("options", ["", " pipeline-strategy=warp-specialize"])
def test_every_row_goes_on_from_text(options):
    source = tileiras.compile(kernels.matmul(), gpu_name="sm_90", emit="tileaa").text
    passes = tileas_passes(f"compute-capability=sm_90 tensor-maps=device{options}")

    def run(module, those):
        PassManager(those, verify_each=True).run(module, PassContext(DiagnosticEngine()))
        return print_op(module)

    expected = run(parse_module(source, "k.mlir"), passes)
    assert "map_memory.build" in expected and "make_tma_desc" not in expected
    text = source
    for each in passes:
        text = run(parse_module(text, "k.mlir"), [each])
    assert text == expected
