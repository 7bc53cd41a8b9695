"""Kernels with tensor memory for the emulator's tests: the code around the part under test.

Blocks have four warps.  The image (`%a0`) is copied to shared memory, columns are allocated, and at the end `dump`
writes their contents lane by lane (`%a1`).  `%r10` is the address of the columns, `%r11` that of the warp's quarter of
the lanes, `%r12` that of the image, `%r1` the thread's number, `%r5` the warp's; `%p1` is true in thread 0.
"""

from __future__ import annotations

import numpy as np

from tileiras.sim import emulate

START = """
    .reg .b32 %v<260>;
    .shared .align 1024 .b8 image[SIZE]; .shared .align 8 .b8 done[16]; .shared .align 4 .b8 base[4];
    mov.u32 %r1, %tid.x; mov.u32 %r12, image; mov.u32 %r3, %r1; shr.u32 %r5, %r1, 5; setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r5, 0; BLOCK
    FILL: mad.wide.u32 %q1, %r3, 16, %a0; ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%q1];
    mad.lo.u32 %r4, %r3, 16, %r12; st.shared.v4.u32 [%r4], {%r20, %r21, %r22, %r23};
    add.u32 %r3, %r3, 128; setp.lt.u32 %p3, %r3, UNITS; @%p3 bra FILL;
    @!%p1 bra READY; mbarrier.init.shared.b64 [done], 1; mbarrier.init.shared.b64 [done+8], 1;
    fence.mbarrier_init.release.cluster;
    READY: fence.proxy.async.shared::cta;
    @!%p2 bra ALLOCATED; tcgen05.alloc.GROUP.sync.aligned.shared::cta.b32 [base], COLUMNS;
    tcgen05.relinquish_alloc_permit.GROUP.sync.aligned;
    ALLOCATED: tcgen05.fence::before_thread_sync; SYNC; tcgen05.fence::after_thread_sync;
    ld.shared.u32 %r10, [base]; and.b32 %r6, %r5, 3; shl.b32 %r6, %r6, 21; add.u32 %r11, %r10, %r6;
"""
END = """
    tcgen05.fence::before_thread_sync; SYNC; @!%p2 bra FREED;
    tcgen05.dealloc.GROUP.sync.aligned.b32 %r10, COLUMNS; FREED:
"""
#: Wait for the operations that thread 0 committed to `done`; every thread that continues has to wait.
WAIT = """
    LOOK: mbarrier.try_wait.parity.shared.b64 %p4, [done], 0; @!%p4 bra LOOK; tcgen05.fence::after_thread_sync;
"""
COMMIT = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"


def registers(count: int, first: int = 0) -> str:
    """A vector of `%v`."""
    return "{" + ", ".join(f"%v{first + number}" for number in range(count)) + "}"


def fill(columns: int, word: str = "0") -> str:
    """Store a word to all lanes of the first columns."""
    parts = []
    for first in range(0, columns, 32):
        count = min(32, columns - first)
        words = "{" + ", ".join(["%r7"] * count) + "}"
        parts.append(f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%r11+{first}], {words};")
    return f"mov.b32 %r7, {word}; " + " ".join(parts) + " tcgen05.wait::st.sync.aligned;"


def dump(columns: int) -> str:
    """Write the first columns to %a1: (128 lanes of every block, columns)."""
    parts = [f"mad.lo.u32 %r8, %r9, 128, %r1; mad.wide.u32 %q9, %r8, {4 * columns}, %a1;"]
    for first in range(0, columns, 32):
        count = min(32, columns - first)
        parts.append(f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {registers(count)}, [%r11+{first}];")
        parts.append("tcgen05.wait::ld.sync.aligned;")
        parts += [f"st.global.u32 [%q9+{4 * (first + each)}], %v{each};" for each in range(count)]
    return "mov.u32 %r9, %ctaid.x; " + "\n".join(parts)


def text(
    kernel, main: str, columns: int = 64, size: int = 2048, cpu: str = "sm_100a", group: int = 1, **options
) -> str:
    """The PTX of a kernel with ``main`` between start and end; ``size``: bytes of the image, in steps of 2048."""
    body = START + main + END
    sync = "bar.sync 0" if group == 1 else "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned"
    block = "" if group == 1 else f"mov.u32 %r9, %ctaid.x; mad.wide.u32 %a0, %r9, {size}, %a0;"
    for name, value in (("SIZE", size), ("UNITS", size // 16), ("COLUMNS", columns), ("GROUP", f"cta_group::{group}"),
                        ("SYNC", sync), ("BLOCK", block)):  # fmt: skip
        body = body.replace(name, str(value))
    return kernel(body, options.pop("parameters", (".u64", ".u64")), threads=128, cpu=cpu, **options)


def run(kernel, main: str, out: np.ndarray, image: np.ndarray | None = None, seed: int | None = 0, **options) -> None:
    """Emulate one block, or a pair of blocks with the images of both (``group=2``)."""
    group = options.get("group", 1)
    array = np.zeros(2048 * group, np.uint8) if image is None else np.ascontiguousarray(image)
    checks = {name: options.pop(name) for name in ("waive", "check_races") if name in options}
    ptx = text(kernel, main, size=array.nbytes // group, **options)
    emulate(ptx, "k", group, [array, out], cluster=(group, 1, 1), seed=seed, **checks)
