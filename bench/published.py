"""Times that others published for kernels whose source and compiler are at hand: the reference for the estimate.

No constant of `targets/rate_tables.py` was set by them; one that was would be marked there as fitted, and its row
here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

SOURCE = "cuTile Python, test/benchmark_tuning.json of 28 May 2026: means of 20 to 49 runs, by the front end's tuner"
"""At its commit, 9c8aa32, the front end's extra asks for compilers `>=13.2,<13.4`; 13.2 has no B200."""


class Published(NamedTuple):
    """A kernel of the front end's benchmarks in its tuned configuration, on a GPU."""

    gpu: str
    kernel: str
    """The name of the benchmark; `bench.real_sizes.BENCHMARKS` has its sizes."""
    config: dict[str, Any]
    """The hints and tile sizes of the tuned configuration."""
    microseconds: float
    fitted: bool = False
    """Whether a constant of the model was set by this figure, which then says nothing about the model."""


_TUNED = [
    Published("B200", "batch_matmul", {"num_ctas": 1, "tk": 128, "tm": 256, "tn": 256}, 600.7),
    Published("B200", "fmha", {"is_causal": False, "occupancy": 4, "tile_m": 64, "tile_n": 256}, 16.2),
    Published("B200", "fmha", {"is_causal": True, "occupancy": 2, "tile_m": 128, "tile_n": 128}, 587.5),
    Published("B200", "matmul", {"num_ctas": 1, "tk": 64, "tm": 256, "tn": 256}, 96.3),
    Published("B200", "matmul_split_k", {"split_k": 4, "tk": 256, "tm": 32, "tn": 64}, 23.1),
    Published("B200", "persistent_matmul", {"num_ctas": 2, "tk": 64, "tm": 256, "tn": 256}, 97.7),
    Published("B200", "swizzled_scaled_matmul", {"num_ctas": 2, "tk": 128, "tm": 256, "tn": 256}, 71.4),
    Published("B200", "transpose", {"tm": 64, "tn": 64}, 15.1),
    Published("RTX PRO 6000", "batch_matmul", {"num_ctas": 1, "tk": 64, "tm": 128, "tn": 128}, 2030.8),
    Published("RTX PRO 6000", "fmha", {"is_causal": False, "occupancy": 1, "tile_m": 64, "tile_n": 128}, 29.9),
    Published("RTX PRO 6000", "fmha", {"is_causal": True, "occupancy": 2, "tile_m": 64, "tile_n": 64}, 1652.6),
    Published("RTX PRO 6000", "matmul", {"num_ctas": 2, "tk": 64, "tm": 256, "tn": 256}, 390.2),
    Published("RTX PRO 6000", "matmul_split_k", {"split_k": 8, "tk": 256, "tm": 32, "tn": 64}, 27.9),
    Published("RTX PRO 6000", "persistent_matmul", {"num_ctas": 2, "tk": 32, "tm": 256, "tn": 256}, 398.0),
    Published("RTX PRO 6000", "swizzled_scaled_matmul", {"num_ctas": 1, "tk": 128, "tm": 128, "tn": 128}, 296.7),
    Published("RTX PRO 6000", "transpose", {"tm": 64, "tn": 64}, 19.6),
]

# GPU, algorithm, type, and by columns: (columns, num_worker_warps, tile_size) or, for the persistent kernel, (columns,
# tile_size_m, tile_size_n), and microseconds. Rows are 65536.
_RMS_NORM = [
    ("B200", "persistent", "f16", ((1024, 8, 1024, 67.2), (2048, 4, 2048, 129.7), (4096, 2, 4096, 238.3))),
    ("B200", "persistent", "f32", ((1024, 16, 1024, 89.4), (2048, 4, 2048, 172.9), (4096, 4, 4096, 338.7))),
    ("B200", "persistent", "bf16", ((1024, 16, 1024, 66.3), (2048, 4, 2048, 129.9), (4096, 2, 4096, 252.8))),
    ("B200", "gather", "f16", ((1024, 4, 512, 56.1), (2048, 4, 1024, 88.6), (4096, 4, 1024, 162.6))),
    ("B200", "gather", "f32", ((1024, 4, 256, 84.6), (2048, 4, 512, 160.2), (4096, 8, 2048, 311.5))),
    ("B200", "gather", "bf16", ((1024, 4, 512, 56.0), (2048, 4, 2048, 88.9), (4096, 4, 2048, 162.8))),
    ("B200", "regular", "f16", ((1024, 4, 1024, 83.0), (2048, 4, 1024, 124.2), (4096, 4, 1024, 214.5))),
    ("B200", "regular", "f32", ((1024, 4, 1024, 92.3), (2048, 4, 512, 171.0), (4096, 4, 1024, 333.5))),
    ("B200", "regular", "bf16", ((1024, 4, 1024, 84.9), (2048, 4, 1024, 127.7), (4096, 4, 1024, 217.6))),
    ("RTX PRO 6000", "persistent", "f16", ((1024, 8, 1024, 199.6), (2048, 16, 2048, 379.3), (4096, 8, 1024, 765.6))),
    ("RTX PRO 6000", "persistent", "f32", ((1024, 16, 1024, 377.2), (2048, 8, 2048, 753.7), (4096, 4, 4096, 1490.9))),
    ("RTX PRO 6000", "persistent", "bf16", ((1024, 8, 1024, 200.5), (2048, 16, 2048, 382.1), (4096, 16, 2048, 759.1))),
    ("RTX PRO 6000", "gather", "f16", ((1024, 4, 512, 184.7), (2048, 4, 512, 367.0), (4096, 8, 2048, 733.0))),
    ("RTX PRO 6000", "gather", "f32", ((1024, 4, 1024, 367.1), (2048, 4, 1024, 733.0), (4096, 4, 1024, 1465.6))),
    ("RTX PRO 6000", "gather", "bf16", ((1024, 4, 256, 184.3), (2048, 4, 2048, 367.8), (4096, 4, 4096, 732.7))),
    ("RTX PRO 6000", "regular", "f16", ((1024, 4, 2048, 184.9), (2048, 8, 4096, 366.8), (4096, 4, 512, 734.7))),
    ("RTX PRO 6000", "regular", "f32", ((1024, 4, 4096, 368.3), (2048, 4, 128, 734.5), (4096, 4, 256, 1463.4))),
    ("RTX PRO 6000", "regular", "bf16", ((1024, 4, 1024, 186.1), (2048, 8, 4096, 367.1), (4096, 8, 2048, 735.7))),
]

_RMS_KEYS = {"persistent": ("tile_size_m", "tile_size_n")}


def published() -> list[Published]:
    """Every figure, in the order of the source."""
    result = list(_TUNED)
    for gpu, algorithm, element, rows in _RMS_NORM:
        first, second = _RMS_KEYS.get(algorithm, ("num_worker_warps", "tile_size"))
        for columns, one, two, microseconds in rows:
            config = {"algo": algorithm, "dtype": element, "columns": columns, first: one, second: two}
            result.append(Published(gpu, "rms_norm", config, microseconds))
    return result
