"""Kernels whose time can be derived by hand: one instruction a line, so that lines name instructions."""

from __future__ import annotations

import functools

import numpy as np

from tileiras.sim.estimate.images import Image, load
from tileiras.sim.estimate.model import Model
from tileiras.sim.estimate.result import Estimate
from tileiras.targets.rates import Gpu, gpu


def kernel(body: str, threads: int = 32, target: str = "sm_90a", shared: int = 0, parameters: int = 1) -> str:
    declared = f".shared .align 1024 .b8 data[{shared}];\n" if shared else ""
    names = ", ".join(f".param .u64 k_{number}" for number in range(parameters))
    loads = "\n".join(f"ld.param.u64 %a{number}, [k_{number}];" for number in range(parameters))
    return (
        f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k({names})\n.reqntid {threads}\n{{\n"
        f".reg .pred %p<20>;\n.reg .b32 %r<200>;\n.reg .b64 %q<40>;\n.reg .b64 %a<8>;\n.reg .f32 %f<300>;\n"
        f"{declared}{loads}\nmov.u32 %r1, %tid.x;\n" + "\n".join(line.strip() for line in body.strip().splitlines())
        + "\nret;\n}\n"
    )  # fmt: skip


def loop(body: str, trips: int, head: str = "AGAIN") -> str:
    """``body`` so many times; %r100 counts."""
    return (
        f"mov.u32 %r100, 0;\n{head}:\n.pragma \"nounroll\";\n{body.strip()}\nadd.u32 %r100, %r100, 1;\n"
        f"setp.lt.u32 %p15, %r100, {trips};\n@%p15 bra {head};\n"
    )  # fmt: skip


def estimate(ptx: str, args: list, grid=1, on: str | Gpu = "H200") -> Estimate:
    """The estimate of entry `k` on a GPU of the table, or on one made for a test."""
    chosen = gpu(on) if isinstance(on, str) else on
    model = Model(_loaded(ptx, chosen.name), (grid,) if isinstance(grid, int) else grid, chosen, args)
    model.prepare()
    return model.estimate()


@functools.cache
def _loaded(ptx: str, name: str) -> Image:
    """The output of assembler and disassembler does not depend on rates."""
    return load(ptx, "k", gpu(name))


def per_iteration(found: Estimate) -> float:
    assert found.steady is not None, found.notes
    return found.steady.cycles


STORE = "mad.wide.u32 %q30, %r1, 4, %a0;\nst.global.f32 [%q30], %f0;"
OUT = np.zeros(1 << 16, np.float32)


def fma_chain(length: int = 64, trips: int = 60) -> str:
    return kernel(
        "mov.f32 %f0, 0f3F800000;\nmov.f32 %f1, 0f3F000000;\n"
        + loop("\n".join(["fma.rn.f32 %f0, %f0, %f1, %f1;"] * length), trips) + STORE
    )  # fmt: skip


def independent_fma(threads: int, chains: int = 8, each: int = 8, trips: int = 60) -> str:
    """Enough independent work that only issue slots are short."""
    start = "\n".join(f"cvt.rn.f32.u32 %f{number}, %r1;" for number in range(chains))
    work = "\n".join(
        f"fma.rn.f32 %f{number}, %f{number}, %f200, %f201;" for _ in range(each) for number in range(chains)
    )
    finish = "\n".join(f"add.f32 %f0, %f0, %f{number};" for number in range(1, chains))
    return kernel(
        f"mov.f32 %f200, 0f3F000000;\nmov.f32 %f201, 0f3E000000;\n{start}\n{loop(work, trips)}{finish}\n{STORE}",
        threads,
    )


def shared_loads(stride: int, threads: int = 256, each: int = 8, trips: int = 60) -> str:
    """Loads of 4 bytes that lie ``stride`` bytes apart."""
    loads = "\n".join(f"ld.volatile.shared.f32 %f{10 + number}, [%r3+{number * 4}];" for number in range(each))
    sums = "\n".join(f"add.f32 %f0, %f0, %f{10 + number};" for number in range(each))
    return kernel(
        f"""mov.f32 %f0, 0f00000000;
        mov.u32 %r2, data;
        and.b32 %r4, %r1, 31;
        mad.lo.u32 %r3, %r4, {stride}, %r2;
        {loop(loads + chr(10) + sums, trips)}{STORE}""",
        threads, shared=32 * max(stride, 4) + 64,
    )  # fmt: skip


def copy_kernel(target: str = "sm_90a") -> str:
    """Each thread copies 64 bytes, a warp's next to each other."""
    moves = [f"ld.global.v4.u32 {{%r{10 + 4 * n}, %r{11 + 4 * n}, %r{12 + 4 * n}, %r{13 + 4 * n}}}, [%q1+{n * 4096}];"
             for n in range(4)]  # fmt: skip
    moves += [f"st.global.v4.u32 [%q2+{n * 4096}], {{%r{10 + 4 * n}, %r{11 + 4 * n}, %r{12 + 4 * n}, %r{13 + 4 * n}}};"
              for n in range(4)]  # fmt: skip
    body = """mov.u32 %r2, %ctaid.x;
        mad.lo.u32 %r3, %r2, 1024, %r1;
        mad.wide.u32 %q1, %r3, 16, %a0;
        mad.wide.u32 %q2, %r3, 16, %a1;
        """ + "\n".join(moves)
    return kernel(body, 256, target, parameters=2)


def registers(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"%f{first + number}" for number in range(count)) + "}"


def of_warpgroup(body: str, floats: int, before: str = "") -> str:
    """A kernel of one warpgroup around a loop of products: %q3 and %q4 describe A and B, %p2 is true, and the first
    ``floats`` of %f are accumulators, which begin as zeros and are added up and stored at the end."""
    clear = "\n".join(f"mov.f32 %f{number}, 0f00000000;" for number in range(floats))
    finish = "\n".join(f"add.f32 %f0, %f0, %f{number};" for number in range(1, floats))
    return kernel(
        f"""{clear}
        {before}
        mov.u32 %r2, data;
        setp.eq.u32 %p2, %r1, %r1;
        shr.u32 %r5, %r2, 4;
        cvt.u64.u32 %q2, %r5;
        or.b64 %q3, %q2, {8 << 32 | 128 >> 4 << 16};
        or.b64 %q4, %q2, {8 << 32 | 128 >> 4 << 16};
        {body}{finish}\n{STORE}""",
        128, shared=32768,
    )  # fmt: skip


def chained_wgmma(columns: int = 256, trips: int = 60, in_registers: bool = False) -> str:
    """Products of one warpgroup on one accumulator, four to a group."""
    a = "{%r40, %r41, %r42, %r43}" if in_registers else "%q3"
    orders = "0" if in_registers else "0, 0"
    form = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16"
    product = f"{form} {registers(columns // 2)}, {a}, %q4, %p2, 1, 1, {orders};"
    body = loop(
        "wgmma.fence.sync.aligned;\n" + f"{product}\n" * 4
        + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;", trips,
    )  # fmt: skip
    words = "\n".join(f"mov.u32 %r{register}, 0;" for register in range(40, 44)) if in_registers else ""
    return of_warpgroup(body, columns // 2, words)


def chained_tcgen05(rows: int = 128, columns: int = 256, trips: int = 60, each: int = 16) -> str:
    """Products of one CTA on one accumulator, ``each`` to a commit; every commit is waited for."""
    word = 1 << 4 | columns // 8 << 17 | rows // 16 << 24  # f16 to f32
    product = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r10], %q3, %q4, %r20, %p2;\n"
    body = loop(
        product * each + """@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r21];
        LOOK:
        mbarrier.try_wait.parity.shared.b64 %p4, [%r21], %r22;
        @!%p4 bra LOOK;
        tcgen05.fence::after_thread_sync;
        xor.b32 %r22, %r22, 1;""", trips,
    )  # fmt: skip
    return kernel(
        f"""mov.u32 %r2, data;
        add.u32 %r21, %r2, 49152;
        shr.u32 %r5, %r1, 5;
        setp.eq.u32 %p1, %r1, 0;
        setp.ne.u32 %p3, %r5, 0;
        setp.eq.u32 %p2, %r2, %r2;
        @%p1 mbarrier.init.shared.b64 [%r21], 1;
        @%p1 fence.mbarrier_init.release.cluster;
        @%p3 bra ALLOCATED;
        add.u32 %r6, %r21, 16;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r6], 256;
        tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
        ALLOCATED:
        tcgen05.fence::before_thread_sync;
        bar.sync 0;
        tcgen05.fence::after_thread_sync;
        ld.shared.u32 %r10, [%r21+16];
        mov.u32 %r20, {word:#x};
        mov.u32 %r22, 0;
        shr.u32 %r7, %r2, 4;
        cvt.u64.u32 %q2, %r7;
        or.b64 %q3, %q2, 0x4000404000010000;
        mov.b64 %q4, %q3;
        setp.ne.u32 %p2, %r2, %r2;
        {product.strip()}
        setp.eq.u32 %p2, %r2, %r2;
        {body}
        tcgen05.fence::before_thread_sync;
        bar.sync 0;
        @%p3 bra FREED;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 256;
        FREED:
        mov.f32 %f0, 0f00000000;
        {STORE}""",
        128, "sm_100a", shared=49152 + 64,
    )  # fmt: skip


STAGES = 2


def ring(work: int, slow: int, trips: int = 60, stages: int = STAGES) -> str:
    """A warp that fills stages of a ring and one that empties them: ``slow`` and ``work`` dependent FMAs each time.

    The kernel's second warp is the producer; barriers of full stages, then of empty ones.
    """

    def chain(length: int) -> str:
        return "\n".join(["fma.rn.f32 %f0, %f0, %f1, %f1;"] * length)

    def wait(label: str, base: int) -> str:
        return f"""{label}:
        mbarrier.try_wait.parity.shared.b64 %p4, [%r11+{base}], %r13;
        @!%p4 bra {label};"""

    following = f"""add.u32 %r12, %r12, 1;
        setp.eq.u32 %p5, %r12, {stages};
        @%p5 xor.b32 %r13, %r13, 1;
        selp.u32 %r12, 0, %r12, %p5;
        shl.b32 %r11, %r12, 3;
        add.u32 %r11, %r11, %r10;"""
    inits = "\n".join(f"@%p1 mbarrier.init.shared.b64 [%r10+{8 * number}], 32;" for number in range(2 * stages))
    producer = loop(f"{wait('EMPTY', 8 * stages)}\n{chain(slow)}\nst.shared.f32 [%r14], %f0;\n"
                    f"mbarrier.arrive.shared.b64 _, [%r11];\n{following}", trips, "FILL")  # fmt: skip
    consumer = loop(f"{wait('FULL', 0)}\n{chain(work)}\nst.shared.f32 [%r14], %f0;\n"
                    f"mbarrier.arrive.shared.b64 _, [%r11+{8 * stages}];\n{following}", trips, "USE")  # fmt: skip
    return kernel(
        f"""mov.f32 %f0, 0f3F800000;
        mov.f32 %f1, 0f3F000000;
        mov.u32 %r10, data;
        mov.u32 %r11, %r10;
        mov.u32 %r12, 0;
        shl.b32 %r14, %r1, 2;
        add.u32 %r14, %r14, %r10;
        add.u32 %r14, %r14, 256;
        setp.eq.u32 %p1, %r1, 0;
        {inits}
        bar.sync 0;
        setp.lt.u32 %p2, %r1, 32;
        @%p2 bra CONSUMER;
        mov.u32 %r13, 1;
        {producer}
        bra DONE;
        CONSUMER:
        mov.u32 %r13, 0;
        {consumer}
        DONE:
        {STORE}""",
        64, shared=1024,
    )  # fmt: skip
