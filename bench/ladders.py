"""Published ladders of CUDA kernels: sources, launches and figures, written by authors other than the model's.

A ladder is a sequence of kernels for one task on one GPU by one author. Repositories are named with commit and blobs;
nothing of them is kept here. `bench.halves` assigns whole ladders, by name, to the half that constants are fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Repository(NamedTuple):
    """A GitHub repository, and how its kernels are compiled."""

    name: str
    commit: str
    prelude: str = ""
    """Declarations that the kernels' headers take from their own main program."""
    include: str = ""
    """Folder of its headers."""
    flags: tuple[str, ...] = ()
    """Options of its build that change code."""

    @property
    def folder(self) -> str:
        return self.name.partition("/")[2]


class Step(NamedTuple):
    """A kernel of a ladder."""

    name: str
    path: str
    entry: str
    """Part of the mangled name of the instance that the author launches."""
    published: float
    """In the ladder's unit."""
    grid: tuple[int, ...]
    block: int | tuple[int, int]
    shared: int = 0
    """Bytes of dynamic shared memory."""
    tile: tuple[int, int, int] = (0, 0, 0)
    """Rows of A, rows of B and depth of boxes, for kernels with tensor maps."""
    maps: str = ""
    """How a kernel of `_fast` takes its tensor maps: `pointer` to 2D maps, `flat` 2D, `deep` 5D and `cube` 3D maps as
    parameters, `store` with one of the result."""
    recalled: bool = False
    """Whether the page was known to state the figure and was not read again."""


class Ladder(NamedTuple):
    name: str
    gpu: str
    repository: Repository
    page: str
    """Where the figures are published."""
    unit: str
    work: float
    """FLOP, or bytes, of the task."""
    arguments: str
    """The function of `bench.ladder_launches` that makes the arguments."""
    steps: tuple[Step, ...]
    arch: str

    def microseconds(self, step: Step) -> float:
        """Published time of a step."""
        scale = {"TFLOP/s": 1e6, "GB/s": 1e3}[self.unit]
        return self.work / step.published / scale


SIZE = 4096
_PRODUCT = 2.0 * SIZE**3

_FAST = Repository(
    "pranjalssh/fast.cu", "38eb642e0c081231d6f695978be63604bd7c689b",
    "#include <cuda.h>\n#include <cudaTypedefs.h>\n#include <cuda/barrier>\n#include <cuda_runtime.h>\n"
    "#include <cuda_bf16.h>\n#include <cassert>\n#include <cstdio>\ntypedef __nv_bfloat16 bf16;\n"
    "#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))\n#define cudaCheck(error) (error)\n",
    flags=("--use_fast_math",),
)  # fmt: skip
_LEARN = Repository("gau-nernst/learn-cuda", "1454f8b71499a68eacdbf44c08e36a7003d8ab99")
_CORES = Repository(
    "waynehacking8/blackwell-tensorcore-kernels", "c289bdedb5f256fdf1351de3cacf7757564a0dd0", include="include"
)


def _fast(number: int, published: float, block: int, stages: int, kind: str, grid: int) -> Step:
    n = 128 if number < 5 else 256
    shared = (128 + n) * 64 * 2 * stages
    if kind == "store":
        shared += n * 128 * 2 + 128  # the result and the mbarriers are in it
    path = f"examples/matmul/matmul_{number}.cuh"
    entry = f"matmulKernel{number}I" + (r".*Lb0E" if number == 3 else "")
    return Step(f"K{number}", path, entry, published, (grid,), block, shared, (128, n, 64), kind, True)


_WORKLOG = "https://cudaforfun.substack.com/p/outperforming-cublas-on-h100-a-worklog"
_FAST_STEPS = (
    _fast(3, 423, 128, 1, "pointer", 1024), _fast(4, 498, 256, 5, "pointer", 1024),
    _fast(5, 610, 384, 3, "pointer", 512), _fast(6, 660, 384, 3, "flat", 128), _fast(7, 704, 384, 3, "deep", 128),
    _fast(8, 734, 384, 3, "cube", 128), _fast(9, 747, 384, 3, "cube", 128), _fast(10, 758, 384, 3, "store", 128),
)  # fmt: skip

_SUM = 2.0**30 * 4


def _sum(number: int, published: float, block: int, batch: int) -> Step:
    return Step(f"sum {number}", "sum.cu", f"sumKernel{number}I", published, (-(-(2**30) // (block * batch)),), block)


_V1 = "02b_matmul_sm80/matmul_v1.cu"


def _learn_02b(figures: tuple[float, ...]) -> tuple[Step, ...]:
    """Products of 4096 cubed in bf16 by `mma.sync`, tiles of 128x128x64."""
    one, two = 256 * 64 * 2, 256 * 64 * 2 * 2
    rows = (
        ("v1", _V1, "matmul_v1_kernel.*Li64ELb0ELb0E", one),
        ("v2 cp.async", _V1, "matmul_v1_kernel.*Li64ELb1ELb0E", one),
        ("v3 padded", _V1, "matmul_v1_kernel.*Li72ELb1ELb0E", 256 * 72 * 2),
        ("v4 swizzled", _V1, "matmul_v1_kernel.*Li64ELb1ELb1E", one),
        ("v5 ldmatrix.x4", "02b_matmul_sm80/matmul_v5.cu", "matmul_v5_kernel", one),
        ("v6 two stages", "02b_matmul_sm80/matmul_v6.cu", "matmul_v6_kernel.*Li2ELi0E", two),
        ("v6b grouped", "02b_matmul_sm80/matmul_v6.cu", "matmul_v6_kernel.*Li2ELi8E", two),
    )  # fmt: skip
    return tuple(Step(name, path, entry, figure, (1024,), 128, shared)
                 for (name, path, entry, shared), figure in zip(rows, figures, strict=True))  # fmt: skip


def _learn_02c(figures: tuple[float, ...], element: str, size: int) -> tuple[Step, ...]:
    """The same for sm_120, tiles of 256x128."""
    steps = []
    for number, figure in enumerate(figures):
        depth = 128 // size if number else 64
        path, entry = f"02c_matmul_sm120/matmul_v{number}.cu", f"matmul_v{number}_kernel.*{element}"
        shared = 384 * depth * size * 2 + (0, 16, 32)[number]
        block = 288 if number == 2 else 256
        steps.append(Step(f"v{number}", path, entry, figure, (512,), block, shared, (256, 128, depth)))
    return tuple(steps)


def _attention(figures: tuple[float, ...]) -> tuple[Step, ...]:
    rows = []
    for number, figure in enumerate(figures, 1):
        queries, shared = (128 if number == 1 else 64), (192 if number == 5 else 128) * 128 * 2
        path = f"07_attention/attention_v{number}.cu"
        grid = (8 * 4096 // queries,)
        rows.append(Step(f"v{number}", path, f"attention_v{number}_kernel", figure, grid, 128, shared))
    return tuple(rows)


def _cores(
    kind: str, entry: str, published: float, grid: tuple[int, ...], block: int | tuple[int, int], shared: int = 0,
    name: str = "",
) -> Step:  # fmt: skip
    return Step(name or kind, f"src/gemm_{kind}.cu", entry, published, grid, block, shared)


def _f32(naive: float, tiled: float) -> tuple[Step, ...]:
    return (_cores("naive", "gemm_naive", naive, (256, 256), (16, 16)),
            _cores("tiled", "gemm_tiled", tiled, (128, 128), (32, 32)))  # fmt: skip


def _mma(name: str, entry: str, published: float, block: int, stages: int) -> Step:
    return _cores("mma", f"gemm_mma_tILi128ELi128ELi32E{entry}", published, (32, 32), block, stages * 16384, name)


def _low(name: str, entry: str, published: float, stages: int) -> Step:
    return _cores("mma_fp8", f"gemm_lowprec_t.*{entry}", published, (32, 32), 128, stages * 16384, name)


_WMMA_TILE = "gemm_wmma_tILi128ELi128ELi3E"
_WMMA_SHARED = 3 * 8192 * 2
_TASK_02B = "README of 02b_matmul_sm80"
_BENCH = "results/bench.csv"
_PRO = "RTX PRO 6000 Max-Q"

LADDERS = (
    Ladder("fast.cu matmul H100", "H100", _FAST, _WORKLOG, "TFLOP/s", _PRODUCT, "hopper_product", _FAST_STEPS, "90a"),
    Ladder("fast.cu sum H100", "H100", _FAST, "comment of sum.cu", "GB/s", _SUM, "reduction",
           (_sum(1, 3232.76, 512, 20), _sum(2, 3239.69, 1024, 64), _sum(3, 3240.11, 1024, 64),
            _sum(4, 3241.47, 1024, 64)), "90a"),
    Ladder("learn-cuda 02b A100", "A100 40GB", _LEARN, _TASK_02B, "TFLOP/s", _PRODUCT, "product_bf16",
           _learn_02b((59.92, 64.94, 166.78, 190.94, 160.42, 220.77, 220.66)), "80"),
    Ladder("learn-cuda 02b RTX 5090", "RTX 5090", _LEARN, _TASK_02B, "TFLOP/s", _PRODUCT, "product_bf16",
           _learn_02b((140.66, 152.91, 160.47, 177.42, 177.60, 177.66, 177.40)), "120a"),
    Ladder("learn-cuda 02c bf16 RTX 5090", "RTX 5090", _LEARN, "README of 02c_matmul_sm120", "TFLOP/s", _PRODUCT,
           "product_in_boxes", _learn_02c((164.01, 171.24, 173.07), "bfloat16", 2), "120a"),
    Ladder("learn-cuda 02c int8 RTX 5090", "RTX 5090", _LEARN, "README of 02c_matmul_sm120", "TFLOP/s", _PRODUCT,
           "product_in_boxes", _learn_02c((425.00, 463.30, 464.89), "Eai", 1), "120a"),
    Ladder("learn-cuda 07 attention RTX 5090", "RTX 5090", _LEARN, "README of 07_attention", "TFLOP/s",
           4.0 * 8 * 4096 * 8192 * 128, "attention", _attention((142.87, 181.11, 189.84, 194.33, 197.74)), "120a"),
    Ladder("tensorcore-kernels f32 H100", "H100", _CORES, _BENCH, "TFLOP/s", _PRODUCT, "product_f32",
           _f32(5.38, 9.10), "90a"),
    Ladder("tensorcore-kernels f32 RTX PRO 6000 Max-Q", _PRO, _CORES, _BENCH, "TFLOP/s", _PRODUCT, "product_f32",
           _f32(5.72, 8.30), "120a"),
    Ladder("tensorcore-kernels wmma H100", "H100", _CORES, _BENCH, "TFLOP/s", _PRODUCT, "product_f16_f32",
           (_cores("wmma", _WMMA_TILE, 59.39, (32, 32), 512, _WMMA_SHARED),), "90a"),
    Ladder("tensorcore-kernels wmma RTX PRO 6000 Max-Q", _PRO, _CORES, _BENCH, "TFLOP/s", _PRODUCT, "product_f16_f32",
           (_cores("wmma", _WMMA_TILE, 96.11, (32, 32), 512, _WMMA_SHARED),), "120a"),
    Ladder("tensorcore-kernels mma RTX PRO 6000 Max-Q", _PRO, _CORES, _BENCH, "TFLOP/s", _PRODUCT, "product_f16_f32",
           (_mma("base", "Li32ELi32ELi1ELb0ELb0E", 63.40, 512, 1),
            _mma("swizzle", "Li32ELi32ELi1ELb0ELb1E", 79.71, 512, 1),
            _mma("vec", "Li32ELi32ELi1ELb1ELb1E", 178.28, 512, 1),
            _mma("pipe", "Li32ELi32ELi2ELb1ELb1E", 182.27, 512, 2),
            _mma("warptile", "Li64ELi64ELi2ELb1ELb1E", 241.40, 128, 2)), "120a"),
    Ladder("tensorcore-kernels f8 RTX PRO 6000 Max-Q", _PRO, _CORES, _BENCH, "TFLOP/s", _PRODUCT, "product_bytes",
           (_low("f8 three stages", "FmtE0ELi3ELi128ELi128E", 454.64, 3),
            _low("e2m1 in bytes", "FmtE1ELi2ELi128ELi128E", 477.70, 2)), "120a"),
)  # fmt: skip

_EVERY_02B = tuple(step.name for step in _learn_02b((1.0,) * 7))
AUDITED: Mapping[str, tuple[str, ...]] = {
    "fast.cu matmul H100": ("K3", "K4", "K6", "K8"),
    "tensorcore-kernels f32 H100": ("naive", "tiled"),
    "learn-cuda 02b A100": _EVERY_02B,
    "learn-cuda 02b RTX 5090": tuple(name for name in _EVERY_02B if name[:3] not in ("v5 ", "v6b")),
    "tensorcore-kernels mma RTX PRO 6000 Max-Q": ("base", "swizzle", "vec", "pipe", "warptile"),
}
"""Steps, by ladder, that the first comparison with ladders had: their errors are reported alone as well."""

DIGESTS: Mapping[str, str] = {
    "fast.cu/examples/matmul/matmul_3.cuh": "08b48802a7fd08115a29750b2b886559397d74db",
    "fast.cu/examples/matmul/matmul_4.cuh": "7f8dcf4068a62a41a2fda05b4342ce5b94347263",
    "fast.cu/examples/matmul/matmul_5.cuh": "c4478ec2795afbaefdc7f1461ab5100404b0d375",
    "fast.cu/examples/matmul/matmul_6.cuh": "ab75d2f211504bf9707f4a45de3aff468e41c0e4",
    "fast.cu/examples/matmul/matmul_7.cuh": "d1c38d4d00e77409e9dda1e933a11d8ba59e9cc6",
    "fast.cu/examples/matmul/matmul_8.cuh": "c38583d950350e3d72762f2836413eeb63006a04",
    "fast.cu/examples/matmul/matmul_9.cuh": "1df7301ad526d61ac0fd51ef5e6c978601130cc0",
    "fast.cu/examples/matmul/matmul_10.cuh": "4e7a31f71866ada5e1cf2d19c930fdf3da66e51a",
    "fast.cu/sum.cu": "649589df00a8db9f266da41a3e1eb93cf7471172",
    "learn-cuda/02b_matmul_sm80/matmul_v1.cu": "13f30f359a3de33854eaa6881b1ba55f8cee990d",
    "learn-cuda/02b_matmul_sm80/matmul_v5.cu": "14945ce8a4dbfec54f70b0ab0b934eb4c7e8b63b",
    "learn-cuda/02b_matmul_sm80/matmul_v6.cu": "3a7db99202825396d4f51cdfbf43f1d16d355c54",
    "learn-cuda/02c_matmul_sm120/matmul_v0.cu": "a6b4226a716fea5cdf6411389a7ae4ff5e4d0d5b",
    "learn-cuda/02c_matmul_sm120/matmul_v1.cu": "a3c6f02f439ab5022a24eddaee4cdfbc672c0ed4",
    "learn-cuda/02c_matmul_sm120/matmul_v2.cu": "f93a38533d74cb9662921d55cdccf57c520a1579",
    "learn-cuda/07_attention/attention_v1.cu": "c892398f3e5b26a7795170c1dd5b69c7136a98ef",
    "learn-cuda/07_attention/attention_v2.cu": "8d6bcc137fdb7b244db8488701f8aa57721b91e6",
    "learn-cuda/07_attention/attention_v3.cu": "b1760026cc7066d94e508191f7fd8de5e38b7cca",
    "learn-cuda/07_attention/attention_v4.cu": "33b02ef612f65e77367e82a37ddd050a2eb97df8",
    "learn-cuda/07_attention/attention_v5.cu": "ef29e7d8735c6fedc13fc91545cff6c21ee68a7b",
    "blackwell-tensorcore-kernels/src/gemm_naive.cu": "c17495da3949ecdf47940bd3e24d713710dd52fc",
    "blackwell-tensorcore-kernels/src/gemm_tiled.cu": "c214052647b8e0b03e498cba68b826bcec6951f0",
    "blackwell-tensorcore-kernels/src/gemm_wmma.cu": "4bbf1cc6922100086007827b16ee821bf94048f0",
    "blackwell-tensorcore-kernels/src/gemm_mma.cu": "8da9dbd364db18e9fb822b64308645a8a6df8e61",
    "blackwell-tensorcore-kernels/src/gemm_mma_fp8.cu": "fba7d21ecd71df7f2050ce6e84eb7652e62de2d4",
}
"""Git's blob id of each source, by repository's name and path."""
