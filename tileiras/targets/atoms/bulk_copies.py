"""Movements through the asynchronous proxy: boxes of tensors by TMA, runs of bytes, tensor memory.

One thread issues each for its agent, but for the loads and stores of tensor memory, which a warp executes.  The
transaction of a load counts the bytes of its whole box (PTX ISA, "Async Copy and mbarrier Transactions").
"""

from __future__ import annotations

from typing import Any

from .rows import Box, CopyAtom, Ordering

TENSOR_MAP = 'PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor" and "Tensor-map"'
BULK = 'PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk"'
TENSOR_MEMORY = 'PTX ISA, "Data Movement Shapes" and "Tensor Memory Access" of tcgen05'

_RANKS = (1, 2, 3, 4, 5)
# CUDA driver API, cuTensorMapEncodeTiled: box sizes up to 256 elements, shared memory aligned to 128 bytes; swizzled
# buffers to eight rows of their span.
_BOX = Box(_RANKS, 256, (0, 32, 64, 128), 128)
_RUN = Box((), 0, (0,), 16)

_GENERIC_READ = Ordering(
    "fence.proxy.async.shared::cta", "threads read the destination before: by each of them, before its release"
)
_LOADED = Ordering("mbarrier.try_wait", "the destination is read: the phase that the transaction belongs to completes")
_GENERIC_WRITE = Ordering("fence.proxy.async.shared::cta", "threads wrote the origin: by each of them")
_GLOBAL_WRITE = Ordering("fence.proxy.async.global", "global memory was accessed through the generic proxy")
_READ = Ordering("cp.async.bulk.wait_group.read", "the origin is written again")
_STORED = Ordering("cp.async.bulk.wait_group", "another thread, through a release, reads global memory")

_LOAD: dict[str, Any] = {
    "executor": "elected thread", "queue": "mbarrier transaction", "after": (_LOADED,), "is_selectable": False,
}  # fmt: skip
_STORE: dict[str, Any] = {
    "executor": "elected thread", "queue": "bulk group", "after": (_READ, _STORED), "is_selectable": False,
    "before": (_GENERIC_WRITE, _GLOBAL_WRITE), "commit": "nvgpu.tma.create_group",
    "wait": "nvgpu.tma.wait_group",
}  # fmt: skip

_LOADS = (
    CopyAtom(
        "tma_load", "global", "shared", (16,), "90", "nvgpu.tma.async.load",
        "cp.async.bulk.tensor", TENSOR_MAP, box=_BOX, before=(_GENERIC_READ, _GLOBAL_WRITE),
        syntax=".{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [{to}], [{map}, {at}], [{barrier}]",
        **{**_LOAD, "is_selectable": True},
    ),
    CopyAtom(
        "tma_load_pair", "global", "shared", (16,), "=100f,110f", "nvgpu.tma.async.load",
        "cp.async.bulk.tensor", TENSOR_MAP, box=_BOX, before=(_GENERIC_READ, _GLOBAL_WRITE),
        syntax=".{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
        "[{to}], [{map}, {at}], [{barrier}]",
        **{**_LOAD, "is_selectable": True},
    ),
    CopyAtom(
        # Others have the instruction as well; there it may be much slower (the same section).
        "tma_load_multicast", "global", "shared", (16,), "=90a,100f,110f",
        "nvgpu.tma.async.load", "cp.async.bulk.tensor", TENSOR_MAP, box=_BOX,
        before=(_GENERIC_READ, _GLOBAL_WRITE),
        syntax=".{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[{to}], [{map}, {at}], [{barrier}], {ctas}",
        **{**_LOAD, "is_selectable": True},
    ),
    CopyAtom(
        "tma_gather4", "global", "shared", (16,), "=100f,110f,120f", "", "cp.async.bulk.tensor", TENSOR_MAP,
        box=Box((2,), 256, (0, 32, 64, 128), 128), before=(_GENERIC_READ, _GLOBAL_WRITE),
        syntax=".2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [{to}], [{map}, {rows}], [{barrier}]",
        **_LOAD,
    ),
    CopyAtom(
        "bulk_load", "global", "shared", (16,), "90", "", "cp.async.bulk", BULK, box=_RUN,
        before=(_GENERIC_READ, _GLOBAL_WRITE),
        syntax=".shared::cta.global.mbarrier::complete_tx::bytes [{to}], [{from}], {bytes}, [{barrier}]",
        **_LOAD,
    ),
)  # fmt: skip

_STORES = (
    CopyAtom(
        "tma_store", "shared", "global", (16,), "90", "nvgpu.tma.async.store",
        "cp.async.bulk.tensor", TENSOR_MAP, box=_BOX,
        syntax=".{rank}d.global.shared::cta.tile.bulk_group [{map}, {at}], [{from}]",
        **{**_STORE, "is_selectable": True},
    ),
    CopyAtom(
        "tma_reduce", "shared", "global", (16,), "90", "nvgpu.tma.async.store",
        "cp.reduce.async.bulk.tensor",
        'PTX ISA, "Data Movement and Conversion Instructions: cp.reduce.async.bulk.tensor"', combines=True, box=_BOX,
        syntax=".{rank}d.global.shared::cta.{operation}.tile.bulk_group [{map}, {at}], [{from}]",
        **{**_STORE, "is_selectable": True},
    ),
    CopyAtom(
        "bulk_store", "shared", "global", (16,), "90", "", "cp.async.bulk", BULK, box=_RUN,
        syntax=".global.shared::cta.bulk_group [{to}], [{from}], {bytes}", **_STORE,
    ),
    CopyAtom(
        "bulk_reduce", "shared", "global", (16,), "90", "", "cp.reduce.async.bulk",
        'PTX ISA, "Data Movement and Conversion Instructions: cp.reduce.async.bulk"', combines=True, box=_RUN,
        syntax=".global.shared::cta.bulk_group.add.f32 [{to}], [{from}], {bytes}", **_STORE,
    ),
)  # fmt: skip

_AFTER_PRODUCT = Ordering("tcgen05.fence::after_thread_sync", "a product wrote it: behind the wait for its commit")
_BEFORE_PRODUCT = Ordering("tcgen05.fence::before_thread_sync", "another thread uses the columns: before the barrier")

_TENSOR = (
    CopyAtom(
        "tcgen05_ld", "tensor", "register", (4,), "=100f,110f", "", "tcgen05.ld", TENSOR_MEMORY,
        executor="warp", queue="tcgen05 load", wait="nvgpu.tcgen05.wait", before=(_AFTER_PRODUCT,),
        after=(Ordering("tcgen05.wait::ld.sync.aligned", "the registers are read"), _BEFORE_PRODUCT),
        syntax=".sync.aligned.32x32b.x{columns}.b32 {registers}, [{from}]", is_selectable=False,
    ),
    CopyAtom(
        "tcgen05_st", "register", "tensor", (4,), "=100f,110f", "", "tcgen05.st", TENSOR_MEMORY,
        executor="warp", queue="tcgen05 store", wait="nvgpu.tcgen05.wait", before=(_AFTER_PRODUCT,),
        after=(Ordering("tcgen05.wait::st.sync.aligned", "it is used by anything else"), _BEFORE_PRODUCT),
        syntax=".sync.aligned.32x32b.x{columns}.b32 [{to}], {registers}", is_selectable=False,
    ),
    CopyAtom(
        "tcgen05_cp", "shared", "tensor", (16,), "=100f,110f", "", "tcgen05.cp",
        'PTX ISA, "Tensorcore 5th Generation Data Movement Instructions: tcgen05.cp"',
        executor="elected thread", queue="tcgen05 commit", before=(_GENERIC_WRITE,),
        after=(Ordering("tcgen05.commit", "anything but a later product of the same thread uses it"),),
        syntax=".cta_group::1.128x256b [{to}], {descriptor}", is_selectable=False,
    ),
)  # fmt: skip

BOX_LOAD, BOX_STORE, BOX_REDUCE = "tma_load", "tma_store", "tma_reduce"
"""The atoms of a box of a tensor on its way to shared memory, and from there: stored, or combined into memory."""

BOX_MULTICAST = "tma_load_multicast"
"""The atom of a box on its way to the shared memory of all CTAs of a cluster."""

PAIR_LOAD = "tma_load_pair"
"""As `BOX_LOAD`, whose bytes complete on an mbarrier of either CTA of a pair."""

REDUCTIONS: dict[tuple[str, str], str] = {
    **{("addf", element): "add" for element in ("f32", "f16", "bf16")},
    ("add", "i32"): "add",
    **{(mode, element): mode for mode in ("min", "max", "and", "or", "xor") for element in ("i32", "i64")},
}
"""How an update of nv_tileaa combines elements of a type -> the operation of the instruction, of those that the PTX ISA
has for the types of maps ("cp.reduce.async.bulk.tensor"), whose integers are signed here."""

BULK_COPY_ATOMS: dict[str, CopyAtom] = {atom.name: atom for atom in (*_LOADS, *_STORES, *_TENSOR)}
