"""Kernels of the front end's benchmarks as they are launched in earnest: sizes, tile sizes, hints, arrays.

The kernels stay in a checkout of cuTile Python; `prepare` makes it importable.  A launch is described by the
configuration that the tuner of the benchmarks found, so that a published time names its configuration.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import tileiras
from tileiras.targets.rates import Gpu

CONFORMANCE = Path(__file__).resolve().parents[1] / "tests" / "conformance"

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f8e4m3": ml_dtypes.float8_e4m3fn}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()} | {
    np.dtype(np.int32): "i32", np.dtype(ml_dtypes.float8_e8m0fnu): "f8e8m0fnu", np.dtype(np.float32): "f32",
}  # fmt: skip
_FRONT_END = {"f8e4m3": "f8e4m3fn"}
_ALIGNED = 16
"""The only divisor that the front end's launches look for: of bytes in addresses and strides, of elements in lengths
(`compute_array_specialization_bits` in its cext/tile_kernel.cpp).  A stride of 4,056 bytes is as any other."""

Config = Mapping[str, Any]


class Launch(NamedTuple):
    """One launch of a kernel of the checkout: ``constants`` are its compile-time parameters behind the others."""

    name: str
    module: str
    kernel: str
    hints: dict[str, int]
    grid: tuple[int, ...]
    values: list[Any]
    """Arrays and scalars, and constants in their places as `Constant`."""
    flops: float = 0
    """Of the products of matrices."""

    def parameters(self) -> list[Any]:
        """The arguments of the entry."""
        return slots(self.values)


class Constant(NamedTuple):
    value: Any


def slots(values: Sequence[Any]) -> list[Any]:
    """The parameters that a kernel in cuTile Python has for its arguments: of an array pointer, sizes and strides in
    elements, of a constant none."""
    result: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray):
            result += [value, *value.shape, *(stride // value.itemsize for stride in value.strides)]
        elif not isinstance(value, Constant):
            result.append(value)
    return result


def prepare(checkout: Path) -> None:
    """Make the kernels of a checkout of cuTile Python importable, without torch."""
    sys.path.insert(0, str(CONFORMANCE))
    import sample_kernels

    sample_kernels.prepare(checkout.resolve(), None)


ENTRY = "benchmark"


def bytecode(launch: Launch, target: str, version: str | None = None) -> bytes:
    """The kernel as the front end exports it for the arrays of the launch, by default in the newest version.  Raises
    CompileError."""
    kernel = getattr(importlib.import_module(launch.module), launch.kernel)
    kernel = kernel.replace_hints(**launch.hints) if launch.hints else kernel
    signature = {ENTRY: tuple(map(_parameter, launch.values))}
    options = {"gpu_name": target, "emit": "bytecode", "bytecode_version": version}
    return tileiras.compile(kernel, signature=signature, **options).data


def _parameter(value: Any) -> Any:
    """The properties of an argument that the front end compiles for."""
    if isinstance(value, Constant):
        return value.value
    if not isinstance(value, np.ndarray):
        return "f32" if isinstance(value, (float, np.floating)) else "i32"
    import cuda.tile as ct
    from cuda.tile import compilation

    from tileiras.stages.export.signatures import DTYPES as SPELLED

    name = NAMES[value.dtype]
    strides = [stride // value.itemsize for stride in value.strides]
    return compilation.ArrayConstraint(
        getattr(ct, SPELLED[_FRONT_END.get(name, name)]),
        value.ndim,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1 if stride == 1 else None for stride in strides],
        stride_divisible_by=[1 if stride % _ALIGNED else _ALIGNED // value.itemsize for stride in value.strides],
        shape_divisible_by=[1 if extent % _ALIGNED else _ALIGNED for extent in value.shape],
        base_addr_divisible_by=_ALIGNED,
    )


# ---- arrays ------------------------------------------------------------------------------------------------------


def filled(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers between -1 and 1 that repeat after a prime number of elements: large arrays are made in no time."""
    some = np.random.default_rng(0).uniform(-1, 1, 65521).astype(DTYPES[dtype])
    return np.resize(some, shape)


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.zeros(shape, DTYPES.get(dtype, dtype))


def divided(*pairs: tuple[int, int]) -> tuple[int, ...]:
    return tuple(-(-extent // tile) for extent, tile in pairs)


# ---- benchmarks --------------------------------------------------------------------------------------------------


def _tiles(config: Config) -> list[Constant]:
    return [Constant(config[key]) for key in ("tm", "tn", "tk")]


def _hints(config: Config, *names: str) -> dict[str, int]:
    return {name: config[name] for name in names if name in config}


def _shape(config: Config) -> str:
    ctas = config.get("num_ctas", 1)
    return f"{config['tm']}x{config['tn']}x{config['tk']}" + (f", {ctas} CTAs" if ctas > 1 else "")


def _matmul(config: Config, gpu: Gpu) -> Launch:
    m = n = k = 4096
    blocks = math.prod(divided((m, config["tm"]), (n, config["tn"])))
    persistent = config.get("persistent", False)
    return Launch(
        f"{'persistent ' * persistent}matmul f16 {m}^3, {_shape(config)}", "kernels.matmul",
        "persistent_matmul_kernel" if persistent else "matmul_kernel", _hints(config, "num_ctas"),
        (min(gpu.sms, blocks) if persistent else blocks,),
        [filled((m, k), "f16"), filled((k, n), "f16"), zeros((m, n), "f16"), *_tiles(config)], 2 * m * n * k,
    )  # fmt: skip


def _persistent_matmul(config: Config, gpu: Gpu) -> Launch:
    return _matmul({**config, "persistent": True}, gpu)


def _batch_matmul(config: Config, gpu: Gpu) -> Launch:
    batch, m, n, k = 4, 8192, 8192, 2000
    return Launch(
        f"batched matmul f8e4m3 {batch}x{m}x{n}x{k}, {_shape(config)}", "kernels.matmul", "batch_matmul_kernel",
        _hints(config, "num_ctas"), (batch, *divided((m, config["tm"]), (n, config["tn"]))),
        [filled((batch, m, k), "f8e4m3"), filled((batch, k, n), "f8e4m3"), zeros((batch, m, n), "f32"),
         *_tiles(config)],
        2 * batch * m * n * k,
    )  # fmt: skip


def _split_k(config: Config, gpu: Gpu) -> Launch:
    m, n, k = 256, 256, 4096
    locks = 32  # as many as the tuner's smallest tiles need
    return Launch(
        f"split-k matmul f16 {m}x{n}x{k}, {_shape(config)}, {config['split_k']} parts", "kernels.matmul",
        "matmul_split_k_kernel", {}, (math.prod(divided((m, config["tm"]), (n, config["tn"]))), config["split_k"]),
        [filled((m, k), "f16"), filled((k, n), "f16"), zeros((m, n), "f16"), zeros((locks,), np.int32),
         zeros((locks,), np.int32), *_tiles(config), Constant(config["split_k"])],
        2 * m * n * k,
    )  # fmt: skip


def _scaled(config: Config, gpu: Gpu) -> Launch:
    m = n = k = 4096
    scales = [np.full((extent // 128, k // 128, 32, 16), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)
              for extent in (m, n)]  # fmt: skip
    return Launch(
        f"block-scaled matmul f8e4m3 {m}^3, {_shape(config)}", "kernels.scaled_matmul", "block_scaled_matmul_kernel",
        _hints(config, "num_ctas"), (math.prod(divided((m, config["tm"]), (n, config["tn"]))),),
        [filled((m, k), "f8e4m3"), scales[0], filled((n, k), "f8e4m3").T, scales[1], zeros((m, n), "f32"),
         *_tiles(config), Constant(32)],
        2 * m * n * k,
    )  # fmt: skip


def _attention(config: Config, gpu: Gpu) -> Launch:
    batch, heads, depth = 1, 32, 128
    causal = config["is_causal"]
    queries, keys = (8192, 8192) if causal else (1, 1024)
    rows, columns = config["tile_m"], config["tile_n"]
    q, out = filled((batch, heads, queries, depth), "f16"), zeros((batch, heads, queries, depth), "f16")
    k, v = (filled((batch, heads, keys, depth), "f16") for _ in range(2))
    constants = [depth, heads, rows, columns, 1, causal, keys % columns == 0]
    return Launch(
        f"attention f16 {batch}x{heads}x{queries}x{keys}x{depth}, {rows}x{columns}, occupancy {config['occupancy']}",
        "kernels.attention", "fmha_kernel", _hints(config, "occupancy"), (-(-queries // rows), batch * heads),
        [q, k, v, out, 1 / math.sqrt(depth), 0 if queries == keys else keys - 1, *map(Constant, constants)],
        4 * batch * heads * queries * keys * depth / (2 if causal else 1),
    )  # fmt: skip


def _rms_norm(config: Config, gpu: Gpu) -> Launch:
    rows, columns, dtype, algorithm = 65536, config["columns"], config["dtype"], config["algo"]
    x, weight, out = filled((rows, columns), dtype), filled((columns,), dtype), zeros((rows, columns), dtype)
    name = f"rms norm {algorithm} {dtype} {rows}x{columns}"
    eps = 1e-5
    if algorithm == "persistent":
        m, n = config["tile_size_m"], config["tile_size_n"]
        return Launch(
            f"{name}, {m}x{n}", "kernels.rms_norm", "rms_norm_kernel_static_persistent", {},
            (min(gpu.sms, -(-rows // m)),), [x, out, weight, *map(Constant, (m, n, columns, eps))],
        )  # fmt: skip
    kernel = "rms_norm_kernel_gather" if algorithm == "gather" else "rms_norm_kernel"
    return Launch(
        f"{name}, {config['tile_size']}, {config['num_worker_warps']} warps", "kernels.rms_norm", kernel,
        _hints(config, "num_worker_warps"), (rows,),
        [x, weight, out, zeros((rows,), "f32"), *map(Constant, (columns, eps, config["tile_size"]))],
    )  # fmt: skip


def _transpose(config: Config, gpu: Gpu) -> Launch:
    m, n = 2048, 2028
    return Launch(
        f"transpose f16 {m}x{n}, {config['tm']}x{config['tn']}", "kernels.transpose", "transpose_kernel", {},
        divided((m, config["tm"]), (n, config["tn"])),
        [filled((m, n), "f16"), zeros((n, m), "f16"), Constant(config["tm"]), Constant(config["tn"])],
    )  # fmt: skip


BENCHMARKS: dict[str, Callable[[Config, Gpu], Launch]] = {
    "matmul": _matmul,
    "persistent_matmul": _persistent_matmul,
    "batch_matmul": _batch_matmul,
    "matmul_split_k": _split_k,
    "swizzled_scaled_matmul": _scaled,
    "fmha": _attention,
    "rms_norm": _rms_norm,
    "transpose": _transpose,
}
"""By the name that the tuner has for them: the launch of a configuration on a GPU."""
