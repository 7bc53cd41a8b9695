"""Kernels of one dot each, with and without block scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case_modules import Kernel, tile_type, whole_tiles
from case_values import DTYPES, values

DOTS = [
    ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("f32", "f32"), ("f64", "f64"),
    ("f8E4M3FN", "f32"), ("f8E5M2", "f32"), ("f8E4M3FN", "f16"), ("f8E5M2", "f16"),
]  # fmt: skip
SIZES = [
    (1, 1, 1, 0), (1, 16, 16, 0), (4, 2, 8, 0), (8, 8, 8, 0), (16, 8, 16, 0), (16, 8, 32, 0), (32, 32, 32, 0),
    (64, 16, 8, 0), (16, 64, 64, 0), (128, 256, 16, 0), (16, 16, 16, 2), (4, 8, 8, 4),
]  # fmt: skip


def products() -> Iterator[Kernel]:
    for m, n, k, batch in SIZES:
        shapes = [(batch,) * bool(batch) + pair for pair in ((m, k), (k, n), (m, n))]
        name = f"{m}x{n}x{k}{f' batch {batch}' if batch else ''}"
        for element, total in DOTS:
            # Small integers: every partial sum is exact in every format, so that the order does not matter.
            yield _product("mmaf", f"{element} {total} {name}", element, total, shapes, "digits", "")
        for left in ("signed", "unsigned"):
            for right in ("signed", "unsigned"):
                yield _product("mmai", f"{left} {right} {name}", "i8", "i32", shapes, "any", f" {left} {right}")


SCALED = [
    ("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32), ("f4E2M1FN", "f8E8M0FNU", 32),
    ("f4E2M1FN", "f8E8M0FNU", 16), ("f4E2M1FN", "f8E4M3FN", 16),
]  # fmt: skip
SCALED_SIZES = [(1, 1, 1, 0), (4, 8, 2, 0), (16, 8, 1, 0), (32, 16, 4, 0), (64, 64, 2, 0), (8, 8, 2, 2)]


def scaled_products() -> Iterator[Kernel]:
    """Blocks of factors along K share a scale, a power of two here, so that sums are exact in any order."""
    for m, n, blocks, batch in SCALED_SIZES:
        for element, scale, block in SCALED:
            k = block * blocks
            lead = (batch,) * bool(batch)
            shapes = [lead + pair for pair in ((m, k), (k, n), (m, n), (m, blocks), (blocks, n))]
            elements = (element, element, "f32", scale, scale)
            domains = ("digits", "digits", "digits", "scales", "scales")
            arrays = [values(d, e, s, f"{i}") for i, (d, e, s) in enumerate(zip(domains, elements, shapes))]
            types = ", ".join(tile_type(s, e) for s, e in zip(shapes, elements))

            def reference(*arrays: np.ndarray, block: int = block) -> np.ndarray:
                a, b, c, d, e = (x.astype(np.float64) for x in arrays)
                return (a * np.repeat(d, block, -1)) @ (b * np.repeat(e, block, -2)) + c

            name = f"mmaf_scaled {element} {scale} by {block} {m}x{n}x{k}{f' batch {batch}' if batch else ''}"
            body = f"%r = mmaf_scaled %a, %b, %c, %d, %e : {types}"
            yield whole_tiles("product", name, list(zip(elements, arrays)), body, "f32", shapes[2], reference)


def far_scales() -> Iterator[Kernel]:
    """Scales at both ends of their range: a single one overflows a factor, a product of two may not."""
    for m, n, blocks, batch in SCALED_SIZES:
        for element, scale, block in SCALED[:4]:
            k, lead = block * blocks, (batch,) * bool(batch)
            shapes = [lead + pair for pair in ((m, k), (k, n), (m, n), (m, blocks), (blocks, n))]
            elements = (element, element, "f32", scale, scale)
            generator = np.random.default_rng(m + n)
            # One value per row or column, so that sums are exact in any order.
            left = np.repeat(generator.choice([60, 99, 126, 127], (*lead, m, 1)), blocks, -1)
            right = np.repeat(generator.choice([-127, -126, -77, -20], (*lead, 1, n)), blocks, -2)
            if blocks > 1:
                left, right = -left, -right
            arrays = [values("digits", e, s, f"far {i}") for i, (e, s) in enumerate(zip(elements[:2], shapes))]
            arrays += [np.zeros(shapes[2], np.float32), *(np.exp2(x.astype(float)).astype(DTYPES[scale])
                                                          for x in (left, right))]  # fmt: skip
            types = ", ".join(tile_type(s, e) for s, e in zip(shapes, elements))

            def reference(*arrays: np.ndarray, block: int = block) -> np.ndarray:
                a, b, c, d, e = (x.astype(np.float64) for x in arrays)
                return (a * np.repeat(d, block, -1)) @ (b * np.repeat(e, block, -2)) + c

            name = f"mmaf_scaled far {element} by {block} {m}x{n}x{k}{f' batch {batch}' if batch else ''}"
            body = f"%r = mmaf_scaled %a, %b, %c, %d, %e : {types}"
            yield whole_tiles("scales", name, list(zip(elements, arrays)), body, "f32", shapes[2], reference)


def _product(mnemonic: str, name: str, element: str, total: str, shapes: list[tuple[int, ...]], domain: str,
             signs: str) -> Kernel:  # fmt: skip
    elements = (element, element, total)
    arrays = [values(domain, e, s, f"{mnemonic} {i}") for i, (e, s) in enumerate(zip(elements, shapes))]
    types = ", ".join(tile_type(s, e) for s, e in zip(shapes, elements))

    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        if mnemonic == "mmaf":
            return a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
        left, right = (x.view(np.uint8) if s == "unsigned" else x for x, s in zip((a, b), signs.split()))
        return (left.astype(np.int64) @ right.astype(np.int64) + c).astype(np.int32)

    inputs = list(zip(elements, arrays))
    body = f"%r = {mnemonic} %a, %b, %c{signs} : {types}"
    return whole_tiles("product", f"{mnemonic} {name}", inputs, body, total, shapes[2], reference)
