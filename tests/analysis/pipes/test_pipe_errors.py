"""Diagnostics of kernels with agents that have a single mistake, and their operations."""

from __future__ import annotations

import pytest

from tests.agents.running import verify
from tests.kernels import agent_matmuls
from tests.kernels import agents as kernels
from tests.kernels.agents import PIPE, kernel, rounds, tile
from tileiras.diagnostics import CompileError

COPY = kernels.copy_kernel("cp_async", "ld_shared", 2, "sm_90")
STORED = kernels.copy_kernel("st_shared", "ld_shared", 2, "sm_90")
BOXES = agent_matmuls.warpgroup_matmul("tma", 2)
BULK = kernels.copy_kernel("bulk_load", "ld_shared", 2, "sm_90")
OTHER = f"%p1, %c1 = {PIPE}.create_pipeline stages 2\n    {PIPE}.agent_switch"


def swapped(text: str, old: str, new: str, count: int = 1) -> str:
    assert old in text
    return text.replace(old, new, count)


def _of_two_elements(text: str) -> str:
    """A kernel whose tiles have 256 elements with the first two of each."""
    text = text.replace("256x", "2x").replace("[256]", "[2]").replace("st_global, 4", "st_global, 2")
    text = text.replace("offset = [[1], [2], [4], [8], [16], [32], [64], [128]]", "offset = [[1]]")
    old = "register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [0]]"
    return swapped(text, old, "register = [[1]], lane = [[0], [0], [0], [0], [0]], warp = [[0], [0]]", -1)


def wgmma(first: int, warps: int = 4) -> str:
    """A consumer for warpgroups from a warp on, which need not read anything here."""
    reads = rounds("%c", "consumer_wait", "", "consumer_release")
    agents = [(1, kernels.producer("cp_async", 1, 2)), (warps, reads)]
    text = kernel(agents, 2, ("cp_async", "wgmma"), block_warps=12)
    return swapped(text, f"num_warps = [1, {warps}]", f"num_warps = [1, {warps}] warp_id = [0, {first}]")


WRONG = {
    "filled with something else": (swapped(COPY, "producer = cp_async", "producer = st_shared"),
        "async.tiled_load' op is of kind 'cp_async', on a pipe of 'st_shared'"),
    "drained with something else": (swapped(COPY, "consumer = ld_shared", "consumer = bulk_store"),
        "consumer_read' op is of kind 'ld_shared', on a pipe of 'bulk_store'"),
    "bulk copies are missing": (swapped(BULK, "nv_tileas.async.bulk_load", "// "),
        "expects one bulk copy into the stage for each of 1 buffers, whose bytes the consumer waits for, but got 0"),
    "boxes that the stage does not have": (BOXES.replace("box = [64, 16], order = [1, 0], swizzle = 32",
        "box = [64, 16], order = [1, 0], swizzle = 128"),
        r"tma_load.* expects a descriptor of box = .64, 16., order = .1, 0., swizzle = 32 for tensor<64x16xf16"),
    "a stage inside of a repetition of the swizzle": (swapped(BOXES, "%ra = nv_tileas.alloc_tensor :",
        "%ra = nv_tileas.alloc_tensor {offset = 1536 : i32} :"),
        "tma_load' op finds stage 0 at byte 1536 of shared memory, its boxes begin at multiples of 1024"),
    "stages that bulk copies do not begin at": (_of_two_elements(BULK),
        "bulk_load' op finds stage 1 at byte 8 of its buffer, bulk copies begin at multiples of 16"),
    "boxes of another buffer": (swapped(BOXES, "into %q buffer = 1", "into %q buffer = 0"),
        "tma_load' op expects a tile like tensor<64x64xf16|expects one bulk copy"),
    "boxes before the stage is acquired": (swapped(BOXES, "into %q buffer = 1", "into %p buffer = 1"),
        "writes to a stage that it has not acquired|expects one bulk copy"),
    "a stage that is not fresh": (swapped(STORED, "producer_acquire %p, %i", "producer_acquire %p, %i {fresh}"),
        "producer_acquire' op acquires a stage as fresh that has been filled before"),
    "no such buffer": (swapped(STORED, "producer_write %x into %q", "producer_write %x into %q buffer = 1"),
        "producer_write' op names buffer 1, on a pipe of 1"),
    "an iterator of the other end": (swapped(STORED, "create_iterator %p : !nv_tileas.producer_token",
        "create_iterator %c : !nv_tileas.consumer_token"),
        "goes by the iterator of the other end"),
    "an iterator of another pipe": (swapped(swapped(STORED, f"{PIPE}.agent_switch", OTHER), "create_iterator %p :",
        "create_iterator %p1 :"), "goes by the iterator of another pipe"),
    "written before it is acquired": (swapped(STORED, "producer_write %x into %q", "producer_write %x into %p"),
        "writes to a stage that it has not acquired"),
    "read before it is waited for": (swapped(STORED, "consumer_read %q", "consumer_read %c"),
        "reads a stage that it has not waited for"),
    "another tile": (swapped(STORED, f"consumer_read %q : {tile(4)}\n        %z",
        f"consumer_read %q : {tile(4).replace('f32', 'i32')}\n        %w = arith.sitofp %y : "
        f"{tile(4).replace('f32', 'i32')} to {tile(4)}\n        %z").replace("addf %y, %y", "addf %w, %w"),
        "expects a tile like tensor<256xf32, .*got tensor<256xi32"),
    "a pipe in a loop": (swapped(STORED, "%p, %c =", "scf.for %unused = %zero to %n step %one : i32 {\n"
        f"%p2, %c2 = {PIPE}.create_pipeline stages 1 \n}}\n%p, %c ="),
        "expects to stand in the function's own block, or to be destroyed in the block that it stands in"),
    "warpgroups that begin inside of one": (wgmma(1), "is drained by warpgroups, in agent 1 of 4 warps from warp 1 on"),
    "half a warpgroup": (wgmma(4, 2), "is drained by warpgroups, in agent 1 of 2 warps from warp 4 on"),
    "wgmma elsewhere": (wgmma(4).replace("sm_90", "sm_100"),
        "filled by 'cp_async' and drained by 'wgmma', which needs .*, not sm_100", "sm_100"),
    "bulk copies on Ampere": (BULK.replace("sm_90", "sm_80"),
        "filled by 'bulk_load' and drained by 'ld_shared', which needs .*, not sm_80", "sm_80"),
    "mbarriers on Turing": (STORED.replace("sm_90", "sm_75"), "which needs .*, not sm_75", "sm_75"),
    "warps beyond the block": (swapped(STORED, "num_warps = [4, 1]", "num_warps = [4, 1] warp_id = [0, 5]"),
        "gives agent 1 warps 5 to 5 of a kernel that has 5"),
    "fewer warps than compute": (swapped(STORED, "block_warps = 5", "block_warps = 2"),
        "has 2 warps in a CTA, and 4 warps compute a tile"),
    "registers of part of a CTA": (swapped(STORED, "num_warps = [4, 1]", "num_warps = [4, 1] max_regs = [64, 40]"),
        "limits registers in a CTA of 5 warps, which are not whole warpgroups of 4"),
    "tiles behind agents with registers": (swapped(kernels.before_and_after("sm_90"),
        "num_warps = [2, 2]", "num_warps = [2, 2] max_regs = [64, 64]"),
        "stands behind agents that have set their own numbers of registers"),
    "a reader that is no consumer": (swapped(STORED, f"{PIPE}.producer_write %x",
        f"%stolen = nv_tileas.copy %ring[%zero : i32] : {kernels.buffer(2)} -> {tile(1)}\n {PIPE}.producer_write %x"),
        "copy' op reads a pipe's buffer in an agent that does not drain it"),
    "uses on both sides of the agents": (swapped(STORED, "nv_tileas.dealloc_tensor",
        f"%i_ = {PIPE}.create_iterator %c : !nv_tileas.consumer_token\n"
        f" %q_ = {PIPE}.consumer_wait %c, %i_\n %r_ = {PIPE}.consumer_release %q_\n "
        "nv_tileas.dealloc_tensor"), "is a pipe between agents that do not run beside each other"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_of_pipes(name):
    text, result, *gpu = WRONG[name]
    with pytest.raises(CompileError, match=result) as info:
        verify(text, *gpu)
    assert all(each.location is not None for each in info.value.diagnostics)


def test_texts_that_are_changed_are_right():
    for text in (COPY, STORED, BULK, wgmma(4)):
        verify(text)
