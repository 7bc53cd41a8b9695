"""Kernels of `examples/kernels` and of `large_products.py` with common tile sizes and with hints: one table.

For these the vendor's compiler specializes warps, and emits rings of stages, tensor maps and wgmma.
"""

from __future__ import annotations

import copy
import functools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "examples"), str(HERE.parents[1])]

import kernel_cases as cases  # noqa: E402
import numpy as np  # noqa: E402
from kernel_cases import BF16, F8E4M3, F16, F32, I8, I32, KernelCase, normal, unset, whole  # noqa: E402

import tileiras  # noqa: E402

EXAMPLES = cases.KERNELS
_TYPES = {F16: "f16", BF16: "bf16", F32: "f32", F8E4M3: "f8e4m3fn", I8: "i8", I32: "i32"}


class Tiled(NamedTuple):
    """A kernel of ``path``, as `vendor_kernels` runs it: ``export`` is the suffix of TILEIRAS_EXPORT, ``hints`` are the
    decorator's."""

    name: str
    path: Path
    entry: str
    export: str
    hints: str
    grid: tuple[int, ...]
    values: Callable[[np.random.Generator], list[Any]]
    outputs: tuple[int, ...]
    reference: Callable[..., list]
    ulps: float = 0
    scale: float = 0.0
    targets: tuple[str, ...] = ()
    source: str = "examples"

    def text(self) -> str:
        """The file that exports the kernel."""
        text, _, _ = self.path.read_text(encoding="utf-8").partition("TILEIRAS_EXPORT = {")
        old = f"@ct.kernel\ndef {self.entry}("
        assert old in text, self.entry
        text = text.replace(old, f"@ct.kernel({self.hints})\ndef {self.entry}(")
        return f"{text}TILEIRAS_EXPORT = {{{self.entry!r}: ({self.entry}, {self.export})}}\n"

    def bytecode(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.py")
            path.write_text(self.text(), encoding="utf-8")
            return tileiras.compile(path, gpu_name="sm_120", emit="bytecode").data

    def run(self, launch: Callable[[list[Any]], None]) -> None:
        case = KernelCase(self.path.name, self.entry, self.grid, self.values, self.outputs, self.ulps, self.scale)
        values = case.make_values()
        before = copy.deepcopy(values)
        with np.errstate(all="ignore"):
            expected = [np.asarray(each) for each in self.reference(*copy.deepcopy(values))]
        launch(case.slots(values))
        case.check(values, expected, before)


def _reference(path: Path, name: str) -> Callable[..., list]:
    def reference(*values: Any) -> list:
        module = cases._load(path)
        return (getattr(module, f"reference_{name}", None) or module.reference)(*values)

    return reference


def product(
    tile: tuple[int, int, int], type: Any = F16, out: Any = F32, hints: str = "", kernel: str = "matmul",
    source: Path = EXAMPLES / "matmul.py", steps: int = 2, tiles: tuple[int, int] = (1, 1), ragged: int = 0,
    grid: tuple[int, ...] | None = None,
) -> Tiled:  # fmt: skip
    """``steps`` tiles of K for each of ``tiles`` tiles of C, smaller by ``ragged`` elements at each end."""
    m, n, k = tile[0] * tiles[0] - ragged, tile[1] * tiles[1] - ragged, tile[2] * steps
    size, transposed = np.dtype(type).itemsize, kernel == "product_tn"
    arrays = [f"{_TYPES[type]}[?, {16 // size}*?]"] * 2 + [f"{_TYPES[out]}[?, {16 // np.dtype(out).itemsize}*?]"]
    # Odd sizes that end within a tile are no multiples of 16 bytes either.
    if ragged % 8:
        arrays[1:] = [text.replace("8*?", "?").replace("4*?", "?") for text in arrays[1:]]
    export = ", ".join([*map(repr, arrays), *map(str, tile)])
    accumulator = (lambda text: text) if kernel != "matmul" or out in (F32, I32) else None
    assert accumulator is not None, "matmul accumulates in the type of C"
    notes = [hints, f"{steps} steps" * (steps != 2), "ragged" * bool(ragged), f"{tiles[0]}x{tiles[1]} tiles"]
    note = " ".join(filter(None, notes if tiles != (1, 1) else notes[:-1]))
    return Tiled(
        f"{kernel} {_TYPES[type]} {'x'.join(map(str, tile))} {note}".strip(), source, kernel, export, hints,
        grid or tiles,
        lambda g: [whole(g, (m, k), type), whole(g, (n, k) if transposed else (k, n), type), unset((m, n), out)],
        (2,), _reference(source, kernel),
    )  # fmt: skip


def attention(
    tile: tuple[int, int, int], causal: bool = False, hints: str = "", steps: int = 2, type: Any = F16
) -> Tiled:
    rows, columns, depth = tile
    queries, keys = rows, columns * steps
    queries = keys if causal else queries
    path = EXAMPLES / "attention.py"
    arrays = ", ".join([f'"{_TYPES[type]}[?, ?, 8*?]"'] * 4)
    note = " ".join(filter(None, (_TYPES[type] * (type != F16), hints, f"{steps} steps" * (steps != 2))))
    export = f'{arrays}, "f32", {causal}, {rows}, {columns}, {depth}'

    def values(g):
        q, k, v = (normal(g, (1, count, depth), type) for count in (queries, keys, keys))
        return [q, k, v, unset((1, queries, depth), type), np.float32(depth**-0.5)]

    return Tiled(
        f"attention {'causal ' * causal}{'x'.join(map(str, tile))} {note}".strip(), path, "attention", export, hints,
        (-(-queries // rows), 1), values, (3,), _reference(path, "causal_attention" if causal else "attention"),
        ulps=4, scale=0.5,
    )  # fmt: skip


def _other(name, source, kernel, export, grid, values, outputs, hints="", **more) -> Tiled:
    path = EXAMPLES / source
    return Tiled(f"{name} {hints}".strip(), path, kernel, export, hints, grid, values, outputs,
                 _reference(path, kernel), **more)  # fmt: skip


def _batched(steps: int) -> Tiled:
    depth, note = 64 * steps, f" {steps} steps" * (steps != 2)
    return _other(
        f"batched 2x64x64x64{note}", "matmul_batched.py", "matmul_batched", '*["f16[?, ?, 8*?]"] * 3, 2, 64, 64, 64',
        (2, 1, 1),
        lambda g: [whole(g, (4, 64, depth), F16), whole(g, (4, depth, 64), F16), unset((4, 64, 64), F16)], (2,),
    )  # fmt: skip


def _split_k(steps: int) -> Tiled:
    """Each of three parts has ``steps`` - 1 iterations."""
    depth, note = 192 * (steps - 1), f" {steps} steps" * (steps != 2)
    return _other(
        f"split-k 64x64x64{note}", "matmul_split_k.py", "matmul_split_k",
        '"bf16[?, 8*?]", "bf16[?, 8*?]", "f32[?, 4*?]", 64, 64, 64', (1, 1, 3),
        lambda g: [whole(g, (64, depth), BF16), whole(g, (depth, 64), BF16), np.zeros((64, 64), F32)], (2,),
    )  # fmt: skip


def _moe(g):
    tokens, experts, depth, width = 150, 2, 160, 128
    order = np.full(256, tokens, np.int32)
    chosen = g.permutation(tokens).astype(np.int32)
    order[:90], order[128:188] = chosen[:90], chosen[90:]
    return [whole(g, (tokens, depth), F16, -3, 3), whole(g, (experts, depth, width), F16, -3, 3), order,
            np.arange(experts, dtype=np.int32), unset((tokens, width), F16)]  # fmt: skip


def _moe_reference(tokens, weights, order, experts, out):
    return cases._load(EXAMPLES / "moe_matmul.py").reference(tokens, weights, order, experts, out)


LARGE = HERE / "large_products.py"
TN = {"kernel": "product_tn", "source": LARGE}
PERSISTENT = {"kernel": "persistent", "source": LARGE, "out": F16}


@functools.cache
def tiled(steps: int = 2) -> list[Tiled]:
    """Loops over K or keys have ``steps`` iterations; kernels with a number of their own have at least that; grouped
    products, MoE, softmax and norms have other loops."""
    of, attends = functools.partial(product, steps=steps), functools.partial(attention, steps=steps)
    result = [of(tile) for tile in (
        (128, 128, 64), (128, 128, 32), (128, 128, 128), (128, 256, 64), (256, 128, 64), (64, 64, 64), (64, 128, 64),
        (16, 64, 64), (32, 32, 32),
    )]  # fmt: skip
    result += [of((128, 256, 64), hints="num_worker_warps=8", steps=max(steps, 4))]
    result += [of((128, 128, 64), hints=hints) for hints in ("occupancy=2", "num_ctas=2", "num_ctas=4")]
    result += [of((256, 256, 64), hints=f"num_ctas={count}") for count in (2, 4)]
    result += [of((128, 128, 64), steps=max(steps, 7)), of((128, 128, 64), tiles=(2, 2)),
              of((128, 128, 64), ragged=8, tiles=(2, 1)),
              of((64, 64, 64), ragged=5, tiles=(1, 2))]  # fmt: skip
    result += [of(tile, BF16) for tile in ((128, 128, 64), (128, 256, 64))]
    result += [of((128, 128, 64), **TN), of((128, 256, 64), **TN), of((64, 64, 128), F8E4M3, **TN),
              of((128, 128, 128), F8E4M3, **TN), of((128, 128, 128), I8, I32, **TN),
              of((64, 64, 64), BF16, **TN)]  # fmt: skip
    result += [of((128, 128, 128), I8, I32), of((64, 64, 64), F8E4M3, source=EXAMPLES / "matmul.py")]
    result += [of((128, 128, 64), grid=(2,), tiles=(2, 2), **PERSISTENT),
              of((64, 128, 64), grid=(3,), tiles=(3, 2), **PERSISTENT),
              of((128, 128, 64), grid=(2,), tiles=(2, 1), hints="num_ctas=2", **PERSISTENT)]  # fmt: skip
    result += [attends(tile, hints=hints) for tile, hints in (
        ((128, 128, 128), "occupancy=2"), ((128, 128, 128), ""), ((64, 64, 128), "occupancy=2"), ((64, 64, 64), ""),
        ((128, 64, 64), ""), ((256, 128, 64), ""),
    )]  # fmt: skip
    result += [attends((64, 64, 64), True), attends((128, 128, 64), True, "occupancy=2")]
    result += [
        _batched(steps),
        _split_k(steps),
        _other("grouped 64x64x32", "matmul_grouped.py", "matmul_grouped", '*[matrices("f16[?, 8*?]")] * 3, 64, 64, 32',
               (4,), cases._grouped, (2,)),
        _other("moe 128x128x64", "moe_matmul.py", "moe_matmul",
               '"f16[?, 8*?]", "f16[?, ?, 8*?]", "i32[?]", "i32[?]", "f16[?, 8*?]", 128, 128, 64', (2, 1), _moe, (4,)),
        _other("moe 64x64x64", "moe_matmul.py", "moe_matmul",
               '"f16[?, 8*?]", "f16[?, ?, 8*?]", "i32[?]", "i32[?]", "f16[?, 8*?]", 128, 64, 64', (2, 2), _moe, (4,)),
        _other("softmax 1024", "long_softmax.py", "long_softmax", '"f32[?, 4*?]", "f32[?, 4*?]", 1024', (3,),
               lambda g: [normal(g, (3, 3000), factor=4), unset((3, 3000))], (1,), ulps=40, scale=0.01),
        _other("rms norm 2048", "rms_norm.py", "rms_norm",
               '"f16[?, 8*?]", "f16[8*?]", "f16[?, 8*?]", "f32", 2048', (3,),
               lambda g: [normal(g, (3, 2048), F16), normal(g, 2048, F16), unset((3, 2048), F16), np.float32(1e-5)],
               (2,), ulps=4, scale=0.5),
    ]  # fmt: skip
    return result
