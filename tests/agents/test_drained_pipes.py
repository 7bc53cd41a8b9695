"""Behind the last stage of a pipe its consumer stores tiles in boxes through the memory that the pipe had."""

from __future__ import annotations

import re

import pytest

from tests.agents.running import SEEDS, SPECIALIZED, sites, survives, verify
from tests.kernels.dots import Matmul
from tests.kernels.reasons import causes
from tests.kernels.views import operations
from tileiras.diagnostics import CompileError
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas.tensor_maps import TmaStoreOp, TmaStoreTailOp

HOST = {"tensor_maps": "host", **SPECIALIZED}
BOX_STORE = "cp.async.bulk.tensor.2d.global.shared::cta"
TAIL = "nv_tileas.async.pipeline.consumer_tail"

PRODUCTS = {
    "warps": ("sm_120", lambda: Matmul((64, 64, 64), steps=5)),
    "warpgroups": ("sm_90", lambda: Matmul((64, 64, 64), steps=5)),
    "tensor memory": ("sm_100", lambda: Matmul((128, 64, 64), steps=5)),
    "edges": ("sm_100", lambda: Matmul((128, 64, 64), sizes=(100, 56, 280), steps=5)),
    "half of the rows": ("sm_100", lambda: Matmul((64, 64, 64), steps=5)),
    "in slices": ("sm_100", lambda: Matmul((128, 256, 64), sizes=(120, 248, 376), steps=6)),
    "in slices of slices": ("sm_100", lambda: Matmul((256, 256, 64), sizes=(250, 248, 128), steps=2)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_stores_in_any_order_of_the_agents(name, assemble):
    gpu, product = PRODUCTS[name]
    kernel = product().kernel()
    artifact = kernel.compiled(gpu, **HOST)
    assert BOX_STORE in artifact.text and "st.global" not in artifact.text
    assert assemble(artifact.text, gpu).stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_the_tile_lies_where_the_stages_were():
    module = Matmul((128, 64, 64), steps=5).kernel().tileas("sm_100", **HOST)
    (store,) = operations(module, TmaStoreOp)
    stages = [op for op in operations(module, nv_tileas.AllocTensorOp) if op is not store.buffer.defining_op]
    assert len(stages) == 2
    ends = [op.offset.value + op.result.type.bytes for op in stages]
    place = store.buffer.defining_op.offset.value
    assert place >= min(op.offset.value for op in stages)
    assert place + store.buffer.type.bytes <= max(ends)
    (func,) = (op for op in module.walk() if op.name == "nv_tileaa.func")
    assert func.attributes[nv_tileas.SHARED_MEMORY].value == max(ends)


@pytest.mark.parametrize("why, product", [
    ("maps.pipe-too-small bytes=65536 room=32768", lambda: Matmul((128, 128, 16), steps=8, sizes=(128, 128, 128))),
    ("maps.small-tile bytes=2048 least=4096", lambda: Matmul((64, 8, 64), steps=5)),
])  # fmt: skip
def test_tiles_that_threads_store(why, product):
    kernel = product().kernel()
    artifact = kernel.compiled("sm_90", emit_remarks=True, **HOST, unspecialized_pipeline_num_stages=4)
    assert BOX_STORE not in artifact.text
    assert why in causes(artifact.diagnostics)
    kernel.emulated(artifact, 1)


def test_several_slices_are_on_their_way(assemble):
    """Each of four slices has a stage; all have been read before the kernel ends."""
    gpu, product = PRODUCTS["in slices"]
    module = product().kernel().tileas(gpu, **HOST)
    (store,) = operations(module, TmaStoreOp)
    (tail,) = operations(module, TmaStoreTailOp)
    assert store.buffer.type.stages == 4 and store.unread.value == 4
    assert tail.buffer is store.buffer
    assert tuple(store.buffer.type.tile.shape) == (128, 64)


def test_threads_store_without_maps():
    """As much as their registers hold at a time."""
    gpu, product = PRODUCTS["in slices"]
    kernel, options = product().kernel(), {**HOST, "tensor_maps": "none"}
    artifact = kernel.compiled(gpu, **options)
    assert BOX_STORE not in artifact.text
    assert all(TAIL not in op.name for op in kernel.tileas(gpu, **options).walk())
    kernel.emulated(artifact, 1)


def test_maps_built_by_the_kernel_live_until_copies_read_them():
    """A wait for the reads of a group is one for those of its maps (PTX ISA, "cp.async.bulk.wait_group")."""
    gpu, product = PRODUCTS["tensor memory"]
    kernel = product().kernel()
    artifact = kernel.compiled(gpu, **{**HOST, "tensor_maps": "device"})
    store, wait, release = map(artifact.text.rindex, (BOX_STORE, "bulk.wait_group.read", "st.release.gpu"))
    assert store < wait < release
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("plan", ["unspecialize", "warp-specialize"])
def test_slices_without_agents(plan):
    """A kernel without agents has the memory of its ring behind the loop."""
    gpu, product = PRODUCTS["in slices"]
    kernel = product().kernel()
    options = {"tensor_maps": "host", "pipeline_strategy": plan}
    (store,) = operations(kernel.tileas(gpu, **options), TmaStoreOp)
    assert store.buffer.type.stages == 4
    artifact = kernel.compiled(gpu, **options)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["warps", "tensor memory", "in slices"])
def test_synchronization_of_the_stores_is_minimal(name):
    gpu, product = PRODUCTS[name]
    kernel = product().kernel()
    artifact = kernel.compiled(gpu, **HOST)
    text = artifact.text
    behind = text[: text.index(BOX_STORE)].rfind("st.shared")
    first = text[:behind].rfind("mbarrier")
    own = [(line, broken) for line, broken in sites(text)
           if ("bar" in line.split(".")[0] or "fence.proxy" in line or "bulk" in line)
           and first < _place(text, broken) <= text.rindex("cp.async.bulk.wait_group")]  # fmt: skip

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    assert survives(text, judge)
    assert {"fence.proxy.async.shared::cta;"} <= {line for line, _ in own}
    assert sum("wait_group.read" in line for line, _ in own) == 1
    assert [line for line, broken in own if survives(broken, judge)] == []


def _place(text: str, broken: str) -> int:
    """Where a text lacks something."""
    return next((n for n, (a, b) in enumerate(zip(text, broken)) if a != b), len(broken))


def test_the_verifier_knows_who_may_take_the_memory():
    text = Matmul((128, 64, 64), steps=5).kernel().compiled("sm_100", emit="tileas", **HOST).text
    verify(text, "sm_100")
    tail = re.search(rf"\n *{TAIL} %consumer", text)
    assert tail is not None
    loop = re.search(r"\n[^\n]*consumer_wait", text)
    early = text.replace(tail[0], "").replace(loop[0], f"{tail[0]}{loop[0]}", 1)
    with pytest.raises(CompileError, match="expects to stand in the block of the only agent that drains the pipe"):
        verify(early, "sm_100")
    begin = re.search(r"\n[^\n]*create_iterator %consumer", text)
    early = text.replace(tail[0], "").replace(begin[0], f"{tail[0]}{begin[0]}", 1)
    with pytest.raises(CompileError, match="one is used behind it"):
        verify(early, "sm_100")
