"""The numbers behind `targets.rates`: architectures by chip, products by name, and where each number is from.

A number is certain if its source was read for this table; the others are marked `derived`, `recalled` or `assumed`,
and a measurement on the hardware should replace those first.  Only the `fitted` numbers were chosen to make an
estimate agree with a published time.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.support.named_tuple import NamedTuple


class Figure(NamedTuple):
    """A number and where it is from."""

    value: float
    source: str
    kind: str = "read"
    """`read`: the source states it.  `derived`: computed from numbers of the source.  `recalled`: the source is known
    to state it and was not read again.  `assumed`: no publication states it; the source is the reason.  `fitted`:
    chosen to agree with the published time that the source names.  `measured`: by `bench calibrate` on the GPU."""


KINDS = ("read", "derived", "recalled", "assumed", "fitted", "measured")

Figures = Mapping[str, Figure]


class Architecture(NamedTuple):
    """Throughput of one SM of a chip per cycle, and latencies in cycles: see `rates.Gpu` for the keys."""

    issue: Figure
    lanes: Figures
    tensor: Figures
    mma_sync: Figures
    bytes_per_cycle: Figures
    latency: Figures


class Product(NamedTuple):
    """A GPU that is sold: an architecture, how many of its SMs, and memory."""

    chip: str
    sms: Figure
    clock_mhz: Figure
    l2_bytes: Figure
    l2_bytes_per_cycle: Figure
    dram_bytes_per_second: Figure
    dram_reach: Figure
    launch_microseconds: Figure
    tensor_reach: Figure
    sustained_mhz: Figure
    power: Figures = {}
    """See `rates.Gpu.power`; empty if no clock at a power limit was published."""
    instead: Mapping[str, Figures] = {}
    """Figures of the architecture that are others in this product, by field."""


# ---- sources -----------------------------------------------------------------------------------------------------

GUIDE = 'CUDA C++ Programming Guide, "Arithmetic Instructions", results per cycle and SM'
LUO = "Luo et al., arXiv 2402.13499 (A100, RTX 4090, H800 PCIe)"
LUO_2 = "Luo et al., arXiv 2501.12084v2 (H800)"
JARMUSCH = "arXiv 2512.02189 (B200)"
UTCMMA = 'microbenchmark "utcmma" (B200), chained products on one accumulator'
PAPERS = {
    "sm_75": "NVIDIA Turing architecture whitepaper, T4 data sheet",
    "sm_80": "NVIDIA A100 architecture whitepaper",
    "sm_86": "NVIDIA GA102 architecture whitepaper",
    "sm_89": "NVIDIA Ada architecture whitepaper, L4 data sheet",
    "sm_90": "NVIDIA H100 architecture whitepaper",
    "sm_100": "NVIDIA Blackwell architecture technical brief, HGX B200 data sheet",
    "sm_103": "NVIDIA Blackwell Ultra data sheet",
    "sm_120": "NVIDIA RTX Blackwell and RTX PRO Blackwell architecture whitepapers",
}
"""Sources by chip for peaks, multiprocessors, clocks, sizes of L2 and DRAM bandwidth."""

LEARN_CUDA = "gau-nernst/learn-cuda, README of 02e (B200)"
TUNED = "cuTile Python, test/benchmark_tuning.json and the benchmarks' results"


def _guide(**values: float) -> dict[str, Figure]:
    return {key: Figure(value, GUIDE, "recalled") for key, value in values.items()}


def _peaks(chip: str, **values: float) -> dict[str, Figure]:
    """FLOP a cycle and SM: the peak of the data sheet over SMs and clock."""
    return {key: Figure(value, PAPERS[chip], "derived") for key, value in values.items()}


# ---- shared by the architectures ---------------------------------------------------------------------------------

_ISSUE = Figure(4, "NVIDIA architecture whitepapers: four sub-cores, one warp instruction a cycle each", "recalled")

_COMMON_LANES = {
    **_guide(alu=64, imad=64, mufu=16, ex2=16, shuffle=32),
    "lsu": Figure(32, "NVIDIA architecture whitepapers: 32 load/store units an SM", "recalled"),
    "uniform": Figure(64, "one every other cycle and sub-core: the stall counts of ptxas", "derived"),
    "branch": Figure(64, "one every other cycle and sub-core: the stall counts of ptxas", "derived"),
}

_GRAPHICS_LSU = Figure(
    16, "a memory instruction every two cycles from all sub-cores together: Huerta et al., MICRO '25, section 5.4 "
    "(RTX A6000); four load/store units a sub-core in NVIDIA's GA102 and Ada architecture whitepapers", "derived"
)  # fmt: skip

_COMMON_BYTES = {
    "shared": Figure(128, 'CUDA C++ Programming Guide, "Shared Memory": 32 banks of 4 bytes a cycle', "recalled"),
    "l1": Figure(128, "NVIDIA architecture whitepapers: 128 bytes a cycle of L1", "recalled"),
    "l2": Figure(
        64, "NVIDIA A100 architecture whitepaper: 5,120 bytes per cycle in all, 64 per port of a slice", "assumed"
    ),
    "tma": Figure(128, "the engine writes shared memory through its port: the port's width", "assumed"),
}

_COMMON_LATENCY = {
    "mufu": Figure(20, "18 to 23 in microbenchmarks of several architectures", "recalled"),
    "conversion": Figure(20, "the same unit as mufu", "assumed"),
    "fp64": Figure(16, "dependent DFMA on sm_80 and sm_90, more where the pipe is narrow", "recalled"),
    "shuffle": Figure(24, "22 to 26 in microbenchmarks of several architectures", "recalled"),
    "branch": Figure(12, "10 to 15 to the first instruction behind a taken branch", "recalled"),
    "barrier": Figure(30, "bar.sync of 128 to 256 threads: 20 to 40", "recalled"),
    "update": Figure(
        1, "4 x 10^9 updates of one address in 0.0864 s, summed by warps before (llnl/RAJA, pull request 1624): one in "
        "0.69 ns, 1.06 cycles of a V100, whose clock of 1,530 MHz is assumed", "derived"
    ),
    "membar": Figure(30, "MEMBAR.CTA: as a barrier", "assumed"),
}

_ASYNC_LATENCY = {
    "mbarrier": Figure(30, "mbarrier.try_wait that succeeds: 20 to 40", "recalled"),
    "fence_proxy": Figure(35, "MEMBAR.CTA and FENCE.VIEW: 20 to 50", "recalled"),
    "cluster_barrier": Figure(200, "a round trip to another SM and a barrier", "assumed"),
    "dsmem": Figure(180, LUO),
    "tma": Figure(170, LUO_2),
}


def _memory(shared: float, l1: float, l2: float, dram: float, source: str, kind: str = "read") -> dict[str, Figure]:
    values = {"shared": shared, "l1": l1, "l2": l2, "dram": dram}
    return {key: Figure(value, source, kind) for key, value in values.items()}


def _lanes(fma: float, half: float, fp64: float, conversion: float, **more: Figure) -> dict[str, Figure]:
    return {**_COMMON_LANES, **_guide(fma=fma, half=half, fp64=fp64, conversion=conversion), **more}


def _bytes(**instead: Figure) -> dict[str, Figure]:
    return {**_COMMON_BYTES, **instead}


def _like(figures: Mapping[str, Figure], why: str) -> dict[str, Figure]:
    """The figures of another chip, assumed for a reason."""
    return {key: Figure(value, f"{why}: {source}", "assumed") for key, (value, source, _) in figures.items()}


# ---- architectures -----------------------------------------------------------------------------------------------

_T4_PAPER = "Jia et al., arXiv 1903.07486 (T4)"

_TURING = Architecture(
    _ISSUE,
    _lanes(fma=64, half=64, fp64=2, conversion=16, lsu=Figure(16, PAPERS["sm_75"], "recalled")),
    _peaks("sm_75", f16=1024, f16_f16=1024, i8=2048),
    _peaks("sm_75", f16=1024, f16_f16=1024, i8=2048),
    _bytes(l1=Figure(64, PAPERS["sm_75"], "recalled")),
    {**_COMMON_LATENCY, **_memory(19, 32, 188, 434, _T4_PAPER, "recalled"),
     "mma_sync": Figure(33, "m16n8k8 is half of m16n8k16: two of 16 cycles and their start-up", "assumed")},
)  # fmt: skip

_A100_TENSOR = _peaks("sm_80", f16=2048, f16_f16=2048, tf32=1024, i8=4096, f64=128)
_AMPERE = Architecture(
    _ISSUE,
    _lanes(fma=64, half=128, fp64=32, conversion=16),
    _A100_TENSOR,
    _A100_TENSOR,
    _bytes(),
    {**_COMMON_LATENCY, **_memory(29.0, 37.9, 261.5, 466, LUO), "mma_sync": Figure(24.6, LUO),
     "mbarrier": _ASYNC_LATENCY["mbarrier"]},
)  # fmt: skip

_ADA_UPDATE = Figure(
    1.3, "62 x 10^9 updates of one address a second, summed by warps before, on RTX 4090 at 2,520 MHz "
    "(PWhiddy/webgpu-atomics-benchmark, README)", "derived"
)  # fmt: skip
_ADA_LATENCY = {
    **_COMMON_LATENCY, "update": _ADA_UPDATE, **_memory(30.1, 43.4, 273, 541.5, LUO), "mma_sync": Figure(24.6, LUO),
    "mbarrier": _ASYNC_LATENCY["mbarrier"],
}  # fmt: skip

_GA102_TENSOR = _peaks("sm_86", f16=512, f16_f16=1024, tf32=256, i8=2048)
_AMPERE_GRAPHICS = Architecture(
    _ISSUE,
    _lanes(fma=128, half=64, fp64=2, conversion=64, lsu=_GRAPHICS_LSU),
    _GA102_TENSOR,
    _GA102_TENSOR,
    _bytes(),
    _like(_ADA_LATENCY, "as the RTX 4090"),
)

_AD102_TENSOR = _peaks("sm_89", f16=512, f16_f16=1024, tf32=256, f8=1024, i8=2048)
_ADA = Architecture(
    _ISSUE,
    _lanes(fma=128, half=64, fp64=2, conversion=64, lsu=_GRAPHICS_LSU),
    _AD102_TENSOR,
    _AD102_TENSOR,
    _bytes(),
    _ADA_LATENCY,
)

_REACHED = f"62.9 % of the peak on average, {LUO}"
_HOPPER_LATENCY = {
    **_COMMON_LATENCY,
    **_ASYNC_LATENCY,
    **_memory(29.0, 40.7, 263, 478.8, LUO),
    "mma_sync": Figure(24.1, LUO),
    "wgmma": Figure(0, f"m64nNk16 takes N/2 cycles, the tensor core's own time, {LUO}"),
}
_HOPPER = Architecture(
    _ISSUE,
    _lanes(fma=128, half=128, fp64=64, conversion=64),
    _peaks("sm_90", f16=4096, f16_f16=4096, tf32=2048, f8=8192, i8=8192, f64=256),
    {
        **{key: Figure(value * 0.629, _REACHED, "derived") for key, value in
           (("f16", 4096), ("f16_f16", 4096), ("tf32", 2048), ("f8", 8192), ("i8", 8192))},
        **_peaks("sm_90", f64=256),
    },
    _bytes(),
    _HOPPER_LATENCY,
)  # fmt: skip

_TENSOR_MEMORY = Figure(512, "each sub-core reads the 32 lanes of its warp, 4 bytes each, in a cycle", "assumed")
_OLD_PATH = f"the rate of the A100; a kernel of {LEARN_CUDA} reached 17 % of the peak, 1,400 of f16"
_BLACKWELL_LATENCY = {
    **_like(_HOPPER_LATENCY, "as Hopper"),
    "l2": Figure(310, "260 to 360 in microbenchmarks of the B200", "recalled"),
    "dram": Figure(725, "650 to 800 in microbenchmarks of the B200", "recalled"),
    "tcgen05": Figure(12, f"10 to 22 beyond M x N x K x 2 / 8192 cycles, {UTCMMA}", "derived"),
    "tcgen05_issue": Figure(11, f"independent products, {JARMUSCH}"),
    "tcgen05_commit": Figure(52, f"commit and wait on the mbarrier, {UTCMMA}"),
    "tcgen05_cp": Figure(70, f"32x128b: 168 the first, 68 to 75 each after, {UTCMMA}"),
    "tcgen05_ld": Figure(30, "as a load of shared memory", "assumed"),
}
_BLACKWELL = Architecture(
    _ISSUE,
    _lanes(fma=128, half=128, fp64=64, conversion=64),
    _peaks("sm_100", f16=8192, f16_f16=8192, tf32=4096, f8=16384, i8=16384, f4=32768, f64=128),
    {key: Figure(value, _OLD_PATH, "assumed") for key, value in
     (("f16", 2048), ("f16_f16", 2048), ("tf32", 1024), ("f8", 4096), ("i8", 4096), ("f64", 128))},
    _bytes(tensor_memory=_TENSOR_MEMORY),
    _BLACKWELL_LATENCY,
)  # fmt: skip

_BLACKWELL_ULTRA = Architecture(
    _ISSUE,
    _lanes(fma=128, half=128, fp64=2, conversion=64, ex2=Figure(32, PAPERS["sm_103"], "recalled")),
    _peaks("sm_103", f16=8192, f16_f16=8192, tf32=4096, f8=16384, f4=49152),
    {
        **{key: Figure(value, _OLD_PATH, "assumed") for key, value in
           (("f16", 2048), ("f16_f16", 2048), ("tf32", 1024), ("f8", 4096))},
        "i8": Figure(273, f"a thirtieth of the B200's peak, {PAPERS['sm_103']}", "recalled"),
    },
    _bytes(tensor_memory=_TENSOR_MEMORY),
    _like(_BLACKWELL_LATENCY, "as the B200"),
)  # fmt: skip

_GB202_TENSOR = _peaks("sm_120", f16=512, f16_f16=1024, tf32=256, f8=1024, i8=2048, f4=4096)
_BLACKWELL_GRAPHICS = Architecture(
    _ISSUE,
    _lanes(fma=128, half=64, fp64=2, conversion=64, lsu=_GRAPHICS_LSU),
    _GB202_TENSOR,
    _GB202_TENSOR,
    _bytes(),
    {**_like(_ADA_LATENCY, "as the RTX 4090"), **_ASYNC_LATENCY},
)

ARCHITECTURES: dict[str, Architecture] = {
    "sm_75": _TURING,
    "sm_80": _AMPERE,
    "sm_86": _AMPERE_GRAPHICS,
    "sm_89": _ADA,
    "sm_90": _HOPPER,
    "sm_100": _BLACKWELL,
    "sm_103": _BLACKWELL_ULTRA,
    "sm_120": _BLACKWELL_GRAPHICS,
}


# ---- products ----------------------------------------------------------------------------------------------------

_DRAM_REACH = Figure(0.91, "BabelStream on the A100, H100 and RTX 4090: 90 to 92 % of the peak", "recalled")
_LAUNCH = Figure(2.0, "1 to 3 microseconds from launch to first instruction", "recalled")
_HOPPER_DRAM = Figure(0.967, "fast.cu, comment of sum.cu: reads of 2^30 words at 3,240 of 3,350 GB/s", "derived")
_HOPPER_TENSOR = Figure(
    0.84, "DeepGEMM's bf16 product: 830 of 989 TFLOP/s; cuBLAS 795, fast.cu 808 at 8192^3 (their READMEs)", "derived"
)
_BOOSTING = frozenset({"sm_86", "sm_89", "sm_120"})
"""Chips of boards whose clock follows their power."""
_WHOLE_TENSOR = Figure(1.0, "clocks are taken to stay where the peak has them", "assumed")
_MB = 1 << 20


def _professional(chip: str) -> dict[str, Figures]:
    """Data centre and workstation products accumulate in f32 at the rate of f16: twice that of GeForce."""
    fast = {key: 2 * value for key, (value, _, _) in ARCHITECTURES[chip].tensor.items() if key in ("f16", "tf32", "f8")}
    return {"tensor": _peaks(chip, **fast), "mma_sync": _peaks(chip, **fast)}


def _product(
    chip: str, sms: int, mhz: float, l2_megabytes: float, l2_rate: Figure, terabytes_per_second: float,
    instead: Mapping[str, Figures] | None = None, tensor_reach: Figure | None = None, dram_reach: Figure | None = None,
    sustained: Figure | None = None, power: Figures | None = None,
) -> Product:  # fmt: skip
    paper = PAPERS[chip]
    clock = Figure(mhz, paper, "recalled")
    if sustained is None:
        sustained = clock._replace(kind="assumed") if chip in _BOOSTING else clock
    return Product(
        chip, Figure(sms, paper, "recalled"), clock,
        Figure(l2_megabytes * _MB, paper, "recalled"), l2_rate, Figure(terabytes_per_second * 1e12, paper, "recalled"),
        dram_reach or _DRAM_REACH, _LAUNCH, tensor_reach or _WHOLE_TENSOR, sustained, power or {},
        instead or {},
    )  # fmt: skip


def _bus(bits: int) -> Figure:
    """Bytes a cycle of L2, in proportion to the width of the memory bus: the RTX 4090, with 384 bits, has 1708."""
    return Figure(1708 * bits / 384, f"the RTX 4090's by the width of the memory bus, {LUO}", "derived")


FAST_CU = "the ladder of fast.cu on H100 SXM, steps 4 to 7 (calibrating half of `bench validation --sources`)"
_H100_L2 = Figure(4900, f"{FAST_CU}; {LUO} loads 3,942 with a microbenchmark on H800 PCIe", "fitted")
_A100_L2 = Figure(2650, f"steps 4 to 6 of gau-nernst/learn-cuda 02b on A100; {LUO} loads 2,008", "fitted")
_GA102_L2 = Figure(861, "10 to 13 bytes a cycle and SM of the RTX 3090's 82", "recalled")
_B200_L2 = Figure(
    148 * 64, f"64 bytes a cycle and SM: the hand-written product of 128x128 tiles reads 60, {LEARN_CUDA}", "derived"
)
_B200_TENSOR = Figure(0.63, f"cuBLAS's bf16 product of 8192^3: 1,414 of 2,243 TFLOP/s, {LEARN_CUDA}", "derived")

# ---- GB202: L2, and the clock at a power limit -------------------------------------------------------------------

_CORES = "waynehacking8/blackwell-tensorcore-kernels, results/ncu_*.txt (RTX PRO 6000 Max-Q)"
_GB202_L2 = Figure(
    3650, f"{_CORES}: traffic of three products of 8192^3 over their cycles and the utilization of L2, 3,660 (cuBLAS), "
    "3,620 (f8) and 3,700; 64 slices of 64 bytes at 0.9 of the SMs' clock (b00nz/mVolt, issue 3) have 3,686", "derived"
)  # fmt: skip
_POINTS = (
    f"{_CORES}, cycles over published times: 1,640 MHz in cuBLAS's f16 product of 8192^3 (74 % of the tensor cores' "
    "peak, 89 % of L2's), 1,685 in the f8 one (77 and 66 %), 2,159 in that of wmma (25 and 31 %)"
)


def _power(reference: Figure) -> Figures:
    """Shares of the dynamic power at one clock, for all 188 SMs, all of their tensor cores' peak and all of L2's."""
    shares = {"sm": 0.358 / 188, "tensor": 0.51 / (188 * 1024), "l2": 0.298 / 3650}
    return {"reference_mhz": reference, **{key: Figure(value, _POINTS, "derived") for key, value in shares.items()}}


_GB202_TENSOR = Figure(
    1.0, "1,023.8 of 1,024 FLOP per SM and cycle of f16 (waynehacking8/blackwell-tensorcore-kernels, "
    "results/mma_rate_probe.csv), 4,095 of 4,096 of f4 on RTX 5090 (Neroued/ninfer, pull request 160)"
)  # fmt: skip
_MAX_Q_CLOCK = Figure(
    2280, "waynehacking8/blackwell-tensorcore-kernels, results/clock_state_*.txt: 2,242 to 2,317 MHz in kernels below "
    "the limit of 300 W", "derived"
)  # fmt: skip
_RTX_5090_CLOCK = Figure(
    2910, "the highest in a kernel of FFMA at a limit of 525 W, Neroued/ninfer, pull request 160; 2,813 to 2,932 in "
    "kernels, kekzl/imp, issue 1671", "derived"
)  # fmt: skip
_RTX_5090_LIMIT = Figure(
    2036, "the ladder of gau-nernst/learn-cuda 02b on RTX 5090 at 400 W (calibrating half of `bench validation "
    "--sources`)", "fitted"
)  # fmt: skip
_RTX_PRO_LIMIT = Figure(
    2319, "as the Max-Q's, with twice its dynamic power at 600 W; graphics loads of RTX 5090 at 575 to 601 W have "
    "2,422 to 2,588 MHz (NVIDIA/open-gpu-kernel-modules, issue 1266)", "assumed"
)  # fmt: skip

PRODUCTS: dict[str, Product] = {
    "T4": _product("sm_75", 40, 1590, 4, Figure(799, f"1,270 GB/s, {_T4_PAPER}", "recalled"), 0.32),
    "A100": _product("sm_80", 108, 1410, 40, _A100_L2, 2.039),
    "A100 40GB": _product("sm_80", 108, 1410, 40, _A100_L2, 1.555),
    "A10": _product("sm_86", 72, 1695, 6, _GA102_L2, 0.6, _professional("sm_86")),
    "RTX 3090": _product("sm_86", 82, 1695, 6, _GA102_L2, 0.936),
    "L4": _product("sm_89", 58, 2040, 48, _bus(192), 0.3, _professional("sm_89")),
    "RTX 4090": _product("sm_89", 128, 2520, 72, Figure(1708, LUO), 1.008),
    "H100": _product(
        "sm_90", 132, 1830, 50, _H100_L2, 3.35, tensor_reach=_HOPPER_TENSOR, dram_reach=_HOPPER_DRAM
    ),
    "H100 PCIe": _product("sm_90", 114, 1620, 50, Figure(3942, LUO), 2.0),
    "H200": _product(
        "sm_90", 132, 1830, 50, _H100_L2._replace(kind="assumed"), 4.8,
        tensor_reach=_HOPPER_TENSOR._replace(kind="assumed"), dram_reach=_HOPPER_DRAM._replace(kind="assumed"),
    ),
    "B200": _product("sm_100", 148, 1850, 126, _B200_L2, 8.0, tensor_reach=_B200_TENSOR),
    "B300": _product(
        "sm_103", 148, 1900, 126, _B200_L2._replace(kind="assumed"), 8.0,
        tensor_reach=_B200_TENSOR._replace(kind="assumed"),
    ),
    "RTX 5090": _product(
        "sm_120", 170, 2407, 96, _bus(512), 1.792, tensor_reach=_GB202_TENSOR, sustained=_RTX_5090_CLOCK,
        power=_power(_RTX_5090_LIMIT),
    ),
    "RTX PRO 6000": _product(
        "sm_120", 188, 2617, 128, _GB202_L2, 1.792, _professional("sm_120"), _GB202_TENSOR,
        power=_power(_RTX_PRO_LIMIT),
    ),
    "RTX PRO 6000 Max-Q": _product(
        "sm_120", 188, 2280, 128, _GB202_L2, 1.792, _professional("sm_120"), _GB202_TENSOR, sustained=_MAX_Q_CLOCK,
        power=_power(Figure(1640, _POINTS, "derived")),
    ),
}
"""H100 is the SXM module; its clock and the H100 PCIe's are those that their f16 peaks follow from.  A10 stands for the
RTX A series of GA102, RTX 3090 for GeForce."""
