"""Tiles that all CTAs of a cluster read: each copies a share of the boxes to all, and no copy overwrites a stage that
another CTA still reads."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests.agents.running import SPECIALIZED, sites, survives, verify
from tests.kernels import tensor_maps as kernels
from tests.kernels.reasons import causes
from tests.kernels.tensor_maps import Arrays
from tileiras.analysis.pipes import model as pipe_model
from tileiras.diagnostics.remarks import remarks_of
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
from tileiras.ir import parse_module

SEEDS = (None, 0, 1)
EVERYWHERE = "::bytes.multicast::cluster"
STAGES = 8
AROUND = ("for %again in (%zero to %steps, step %one) : tile<i32> {", "continue\n}")


@pytest.fixture(autouse=True)
def tiles_of_two_ctas(monkeypatch):
    """Each has 64 rows of A, and all of B."""
    monkeypatch.setattr(kernels, "TILES", (128, 64, 32))


@pytest.fixture
def gpu(request, monkeypatch):
    """On sm_100 with fewer columns than CTAs multiply together, which would take half of B each."""
    if request.param == "sm_100":
        monkeypatch.setattr(kernels, "TILES", (128, 16, 32))
    return request.param


PLANS = {"agents": SPECIALIZED, "ring": {"pipeline_strategy": "unspecialize"},
         "overlapping": {"pipeline_strategy": "unspecialize", "v2_opt_level": 2}}  # fmt: skip


def compiled(
    text: str, gpu: str = "sm_90", ctas: int = 2, maps: str = "host", emit: str = "ptx", plan: str = "agents"
):
    options = {**PLANS[plan], "num_ctas": ctas, "tensor_maps": maps, "emit_remarks": True}
    return tileiras.compile(text, gpu_name=gpu, emit=emit, **options)


def missed(artifact) -> list[str]:
    return causes(artifact.diagnostics, "maps.unused")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("maps", ["host", "device"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"], indirect=True)
def test_ctas_copy_for_each_other(gpu, maps, assemble):
    artifact = compiled(kernels.matmul(), gpu, maps=maps)
    assert artifact.text.count(EVERYWHERE) == 1
    assert assemble(artifact.text, gpu).stack == 0
    # More steps than stages, tiles over the edge, and CTAs all of whose rows are beyond it.
    for seed in SEEDS[:2]:
        Arrays(136, 71, 231).launch(artifact.text, artifact.kernels[0].metadata, seed)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_any_number_of_steps(steps, plan):
    artifact = compiled(kernels.matmul(), plan=plan)
    assert EVERYWHERE in artifact.text
    for seed in SEEDS[:2]:
        Arrays(128, 64, 288).launch(artifact.text, artifact.kernels[0].metadata, seed, steps)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"], indirect=True)
def test_ctas_copy_for_each_other_without_agents(gpu, assemble):
    """The tiles of the first iterations, which stand before the loop, as well."""
    artifact = compiled(kernels.matmul(), gpu, plan="ring")
    assert artifact.text.count(EVERYWHERE) > 1 and "setmaxnreg" not in artifact.text
    assert assemble(artifact.text, gpu).stack == 0
    for seed in SEEDS[:2]:
        Arrays(136, 71, 231).launch(artifact.text, artifact.kernels[0].metadata, seed)


@pytest.mark.parametrize("plan", PLANS)
def test_the_model_finds_rings_of_two_ctas_right(plan):
    verify(compiled(kernels.matmul(), emit="tileas", plan=plan).text)


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_a_ring_whose_iterations_overlap(steps):
    """Threads compute A, and use each result; the release of a stage is conditional on another fill of it."""
    text = kernels.matmul(hints=" optimization_hints = <sm_90 = {allow_tma = false}>")
    a, sums = "tile<128x32xf16>", "tile<128x64xf32>"
    text = text.replace("%next = mmaf %a,", f"%same = maxf %a, %a : {a}\n      %next = mmaf %same,")
    text = text.replace("continue %next", f"%used = addf %next, %none : {sums}\n      continue %used")
    verify(compiled(text, emit="tileas", plan="overlapping").text)
    artifact = compiled(text, plan="overlapping")
    assert EVERYWHERE in artifact.text
    for seed in SEEDS[:2]:
        Arrays(128, 64, 288).launch(artifact.text, artifact.kernels[0].metadata, seed, steps)


def test_two_rings_one_behind_the_other():
    artifact = compiled(kernels.twice(), plan="ring")
    assert EVERYWHERE in artifact.text
    for seed in SEEDS[:2]:
        Arrays(128, 64, 231).launch(artifact.text, artifact.kernels[0].metadata, seed, times=2)


@pytest.mark.parametrize("plan", ["agents", "ring"])
def test_four_ctas_cut_boxes_into_smaller_ones(plan, monkeypatch, assemble):
    monkeypatch.setattr(kernels, "TILES", (256, 64, 32))
    artifact = compiled(kernels.matmul(), ctas=4, plan=plan)
    result = [each.arguments for each in remarks_of(artifact.diagnostics) if "CTAs" in each.arguments]
    assert [(each["Shape"], each["Box"], each["CTAs"]) for each in result] == [("[32, 64]", "[8, 64]", "4")]
    assemble(artifact.text, "sm_90")
    Arrays(256, 64, 231).launch(artifact.text, artifact.kernels[0].metadata, 0)


def test_pipes_run_on_through_a_loop_around():
    artifact = compiled(kernels.matmul(around=AROUND))
    assert EVERYWHERE in artifact.text
    for seed in SEEDS[:2]:
        Arrays(128, 64, 96).launch(artifact.text, artifact.kernels[0].metadata, seed)


CLUSTER_BARRIER = re.compile(r"barrier\.cluster\.arrive[\w.]*;\s*barrier\.cluster\.wait[\w.]*;")


COMMIT_TO_ALL = re.compile(r"(tcgen05\.commit\S*)\.multicast::cluster(\.b64 \[%r\d+\]), %rs\d+")


@pytest.mark.slow
def test_synchronization_of_the_ctas_of_a_ring_is_minimal():
    artifact = compiled(kernels.matmul(), plan="ring")
    arrays = Arrays(128, 64, 288)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed)

    assert survives(artifact.text, judge, SEEDS)
    result = [(line, broken) for line, broken in sites(artifact.text) if "cluster" in line]
    assert [line for line, _ in result if "shared::cluster.b64" in line] and "acq_rel" not in artifact.text
    # The tiles before the loop find all stages empty, and are not waited for.
    assert artifact.text.count("mbarrier.try_wait") == 2
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"], indirect=True)
def test_synchronization_of_the_ctas_is_minimal(gpu):
    artifact = compiled(kernels.matmul(), gpu)
    arrays = Arrays(128, 64, 288)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed)

    assert survives(artifact.text, judge, SEEDS)
    result = sites(artifact.text)
    (barrier,) = CLUSTER_BARRIER.finditer(artifact.text)
    result.append((barrier[0], artifact.text[: barrier.start()] + artifact.text[barrier.end() :]))
    # Arrivals at the other CTA in the loop and behind it; a commit arrives at both.
    assert sum("shared::cluster.b64" in line for line, _ in result) == (2 if gpu == "sm_90" else 0)
    alone, commits = COMMIT_TO_ALL.subn(r"\1\2", artifact.text)
    assert commits == (gpu == "sm_100")
    result += [("a commit to one CTA", alone)] * commits
    lines = [line for line, broken in result if survives(broken, judge, SEEDS)]
    # On sm_100 either of the two fences behind `mbarrier.init` can stand in for the other one.
    if gpu == "sm_100":
        lines = [line for line in lines if not line.startswith("fence.mbarrier_init")]
    # Each warp of the other CTA releases the stages one after the other: in the emulator its last arrival implies the
    # others, and of the waits before the exit that for it is enough.
    assert len(lines) == (STAGES - 1 if gpu == "sm_90" else 0)
    assert all(line.startswith("mbarrier.try_wait") for line in lines)


# ---- which kernels ---------------------------------------------------------------------------------------------------


def test_without_agents_each_cta_in_an_outer_loop_copies_alone():
    """A ring is another one in each round: nothing would keep a box of the last one from its mbarriers."""
    artifact = compiled(kernels.matmul(around=AROUND), plan="ring")
    assert EVERYWHERE not in artifact.text and "cp.async.bulk.tensor" in artifact.text
    assert missed(artifact) == ["maps.alone-nested"]
    Arrays(128, 64, 96).launch(artifact.text, artifact.kernels[0].metadata, 0)


def test_boxes_that_cannot_be_shared_out(monkeypatch):
    """Eight CTAs, and eight rows of 128 bytes, which are one repetition of the swizzle."""
    monkeypatch.setattr(kernels, "TILES", (256, 32, 32))
    artifact = compiled(kernels.matmul(), ctas=8)
    assert EVERYWHERE not in artifact.text
    assert "maps.alone-indivisible ctas=8" in missed(artifact)


def test_targets_on_which_it_may_be_slower():
    artifact = compiled(kernels.matmul(), "sm_120")
    assert EVERYWHERE not in artifact.text and "cp.async.bulk.tensor" in artifact.text


def test_tiles_that_are_not_the_same_for_all():
    """The CTA's rank is in the rows of A, not in B."""
    text = compiled(kernels.matmul(), emit="tileas").text
    loads = re.findall(r"tma_load %\w+\[([^\]]*)\].*?(multicast)?\b[^\n]*\n", text)
    assert len(loads) == 2 and text.count("{multicast}") == 1
    assert re.search(r"tma_load [^\n]*buffer = 1 \{multicast\}", text)


# ---- diagnostics of the verifier -------------------------------------------------------------------------------------


def placed() -> str:
    return compiled(kernels.matmul(), emit="tileas").text


WRONG = {
    "a pipe of one CTA": (lambda text: text.replace(" ctas = 2", ""),
        "copies to all CTAs of a cluster, on a pipe that one CTA fills"),
    "another number of CTAs": (lambda text: text.replace(" ctas = 2", " ctas = 4"),
        "is a pipe between 4 CTAs, in a cluster of 2"),
    "one CTA": (lambda text: text.replace(" ctas = 2", " ctas = 1"), "is a pipe between 1 CTAs, in a cluster of 2"),
    "a tile of each CTA's own": (
        lambda text: re.sub(r"(tma_load [^\n]*) into (%\w+) :", r"\1 into \2 {multicast} :", text, count=1),
        "a tile that is not the same for all|expects a descriptor of box"),
    "trips that differ": (lambda text: re.sub(r"(scf\.for %\w+ = )%\w+ to", r"\1%1 to", text),
        "is on a pipe between CTAs, and some of them come to it more often than others"),
    "another target": (lambda text: text.replace('compute_capability = 90', 'compute_capability = 120')
        .replace('"sm_90"', '"sm_120"'), "which needs one of sm_90a, sm_100f, sm_110f, not sm_120"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    change, result = WRONG[name]
    before = placed()
    after = change(before)
    assert after != before
    gpu = "sm_120" if "sm_120" in result else "sm_90"
    with pytest.raises(tileiras.CompileError, match=result):
        verify(after, gpu)


def test_the_model_has_ctas_that_wait_for_each_other(monkeypatch):
    """Two CTAs: one that gets no signal when a stage of the other one is empty waits for ever."""
    text = placed()
    verify(text)
    monkeypatch.setattr(pipe_model, "_receivers", lambda where, own, ctas: (own,))
    with pytest.raises(tileiras.CompileError, match="agent 0 of CTA 0 waits .* of CTA 1 waits"):
        verify(text)
    module = parse_module(text)
    (pipe,) = (op for op in module.walk() if isinstance(op, CreatePipelineOp))
    assert pipe.mbarrier_bytes == 2 * 8 * pipe.num_stages.value
