"""The limits of the table, asked of ptxas: it takes the number given and refuses or ignores the next one.

ptxas knows most shared memory of a CTA (with `--enable-extended-smem`), threads and CTAs of an SM
(`.minnctapersm`), registers of a thread (`.maxnreg`), parameter bytes and named barriers.  It does not check clusters.
"""

import pytest

from tileiras.codegen import ptxas as assembler
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.options import GPU_NAMES
from tileiras.targets import occupancy, sm, target

PTX = (9, 4)


def said(gpu: str, entry: str, ptxas: str, version: tuple[int, int] = PTX, options: tuple[str, ...] = ()) -> str | None:
    """The complaint of ptxas about a module with one entry: None when it accepts the module without a message."""
    engine = DiagnosticEngine()
    text = ".version {}.{}\n.target {}\n.address_size 64\n".format(*version, gpu) + entry
    try:
        assembler.assemble(text, gpu, opt_level=0, options=options, ptxas=ptxas, engine=engine)
    except CompileError as error:
        return str(error)
    return engine.diagnostics[0].message if engine.diagnostics else None


def shared(size: int) -> str:
    return (
        f".shared .align 4 .b8 s[{size}];\n.visible .entry k(.param .u64 p) {{\n.reg .b64 %d;\n.reg .b32 %r;\n"
        "ld.param.u64 %d, [p];\nld.shared.u32 %r, [s];\nst.u32 [%d], %r;\nret;\n}\n"
    )


def bounded(threads: int, ctas: int) -> str:
    return f".visible .entry k() .reqntid {threads} .minnctapersm {ctas} {{ ret; }}\n"


@pytest.mark.parametrize("gpu", GPU_NAMES)
def test_limits_of_a_target(gpu, ptxas):
    row = target(gpu)
    extended = ("--enable-extended-smem", "true")
    assert said(gpu, shared(row.shared_per_cta), ptxas, options=extended) is None
    assert "too much shared data" in said(gpu, shared(row.shared_per_cta + 1024), ptxas, options=extended)
    assert said(gpu, shared(sm.STATIC_SHARED_LIMIT), ptxas) is None
    assert "too much shared data" in said(gpu, shared(sm.STATIC_SHARED_LIMIT + 4), ptxas)
    assert said(gpu, bounded(256, row.threads // 256), ptxas) is None
    assert "threads per SM" in said(gpu, bounded(256, row.threads // 256 + 1), ptxas)
    assert said(gpu, bounded(32, row.ctas), ptxas) is None
    assert "out of range" in said(gpu, bounded(32, row.ctas + 1), ptxas)
    barrier = ".visible .entry k() {{ bar.sync {}; ret; }}\n"
    assert said(gpu, barrier.format(sm.NAMED_BARRIERS - 1), ptxas) is None
    assert "out of range" in said(gpu, barrier.format(sm.NAMED_BARRIERS), ptxas)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_120"])
@pytest.mark.parametrize("version, limit", [((8, 0), sm.PARAMETER_BYTES), ((9, 4), sm.PARAMETER_BYTES_PTX81)])
def test_parameter_space(gpu, version, limit, ptxas):
    if target(gpu).ptx > version:
        pytest.skip(f"no PTX {version} for {gpu}")

    def entry(size):
        return f".visible .entry k(.param .align 4 .b8 p[{size}]) {{ ret; }}\n"

    assert said(gpu, entry(limit), ptxas, version) is None
    assert said(gpu, entry(limit + 4), ptxas, version) is not None


@pytest.mark.parametrize(
    "gpu, threads, registers, shared, ctas, limit",
    [
        ("sm_90", 128, 80, 24576, 6, "kernel.limited-by-registers registers=80"),
        ("sm_90", 128, 32, 100 * 1024, 2, "kernel.limited-by-shared bytes=102400"),
        ("sm_90", 1024, 32, 0, 2, "kernel.limited-by-threads threads=2048"),
        ("sm_90", 32, 16, 0, 32, "kernel.limited-by-ctas ctas=32"),
        ("sm_86", 256, 40, 0, 6, "kernel.limited-by-threads threads=1536"),
        ("sm_75", 256, 128, 0, 2, "kernel.limited-by-registers registers=128"),
        ("sm_120", 256, 255, 99 * 1024, 1, "kernel.limited-by-registers registers=255"),
    ],
)
def test_occupancy_is_that_of_the_calculator(gpu, threads, registers, shared, ctas, limit):
    result = occupancy(target(gpu), threads, registers, shared)
    assert (result.ctas, result.reason.spelled()) == (ctas, limit)
