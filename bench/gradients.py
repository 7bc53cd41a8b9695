"""python -m bench gradients [--gpu H200] [--tiles 64x64,...] [--depths 64,128] [--types f16,...]
[--size HEADSxPOSITIONS] [--tensor-maps host] [--hints TEXT] [--against COMMIT]

Estimates of the gradients of keys and values in attention, causal and not: tiles of queries by tiles of keys.  With
`--against`, also of the code of another commit's compiler.  Needs ptxas and nvdisasm.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
from collections.abc import Sequence

import numpy as np

from bench import against, estimates
from bench.estimates import Job
from bench.real_sizes import slots
from tileiras.targets import rates

_KERNEL = """
import cuda.tile as ct


@ct.kernel({hints})
def kernel(q, k, v, do, lse, delta, dk, dv, scale, TM: ct.Constant[int], TN: ct.Constant[int], D: ct.Constant[int],
           CAUSAL: ct.Constant[bool]):
    ZERO = ct.PaddingMode.ZERO
    block, head = ct.bid(0), ct.bid(1)
    columns = block * TN + ct.arange(TN, dtype=ct.int32)
    keys = ct.reshape(ct.load(k, (head, block, 0), (1, TN, D), padding_mode=ZERO), (TN, D))
    values = ct.reshape(ct.load(v, (head, block, 0), (1, TN, D), padding_mode=ZERO), (TN, D))
    of_keys, of_values = ct.zeros((TN, D), ct.float32), ct.zeros((TN, D), ct.float32)
    start = (block * TN) // TM if CAUSAL else 0
    for step in range(start, ct.cdiv(q.shape[1], TM)):
        queries = ct.reshape(ct.load(q, (head, step, 0), (1, TM, D), padding_mode=ZERO), (TM, D))
        upstream = ct.reshape(ct.load(do, (head, step, 0), (1, TM, D), padding_mode=ZERO), (TM, D))
        log_sum = ct.reshape(ct.load(lse, (head, step), (1, TM), padding_mode=ZERO), (TM, 1))
        offset = ct.reshape(ct.load(delta, (head, step), (1, TM), padding_mode=ZERO), (TM, 1))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TM, TN), ct.float32)) * scale
        rows = step * TM + ct.arange(TM, dtype=ct.int32)
        visible = (rows < q.shape[1])[:, None]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        shares = ct.where(visible, ct.exp(scores - log_sum), 0.0)
        of_values = ct.mma(ct.transpose(ct.astype(shares, q.dtype)), upstream, of_values)
        slopes = ct.mma(upstream, ct.transpose(values), ct.zeros((TM, TN), ct.float32))
        slopes = shares * (slopes - offset) * scale
        of_keys = ct.mma(ct.transpose(ct.astype(slopes, q.dtype)), queries, of_keys)
    ct.store(dk, (head, block, 0), ct.reshape(of_keys, (1, TN, D)))
    ct.store(dv, (head, block, 0), ct.reshape(of_values, (1, TN, D)))


TILEIRAS_EXPORT = {{"kernel": (kernel, {signature}, "f32", {rows}, {columns}, {depth}, {causal})}}
"""


def _numbers(text: str) -> tuple[int, int]:
    first, second = map(int, text.split("x"))
    return first, second


def job(
    tile: tuple[int, int], depth: int, element: str, causal: bool, size: tuple[int, int], gpu: rates.Gpu, hints: str
) -> Job:
    """A launch over heads and positions.  Raises CompileError."""
    heads, positions = size
    types = [f"{element}[?, ?, 8*?]"] * 4 + ["f32[?, 8*?]"] * 2 + ["f32[?, ?, 8*?]"] * 2
    text = _KERNEL.format(
        hints=hints, signature=", ".join(map(repr, types)), rows=tile[0], columns=tile[1], depth=depth, causal=causal
    )
    data = estimates.exported(text, gpu.target.name)
    whole, of_rows = (heads, positions, depth), (heads, positions)
    arrays = [np.zeros(shape, kind) for shape, kind in
              [(whole, np.uint16)] * 4 + [(of_rows, np.float32)] * 2 + [(whole, np.float32)] * 2]  # fmt: skip
    name = f"{tile[0]}x{tile[1]}, d {depth}, {element}{', causal' if causal else ''}"
    flops = 8 * heads * positions**2 * depth / (2 if causal else 1)
    return Job(name, data, "kernel", (-(-positions // tile[1]), heads, 1), slots([*arrays, 0.125]), flops)


def _shown(found: estimates.Timed) -> str:
    estimate = found.estimate
    if estimate is None:
        return found.refusal
    held = estimate.occupancy
    return (
        f"{estimate.microseconds:.1f} us ({estimate.low:.1f} to {estimate.high:.1f}), {estimate.bound}, "
        f"{held.ctas} CTAs{', in doubt' if estimate.doubt else ''}"
    )


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="gradients", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--tiles", default="64x64,128x64,64x128,128x128")
    parser.add_argument("--depths", default="64,128")
    parser.add_argument("--types", default="f16")
    parser.add_argument("--size", type=_numbers, default=(16, 2048), metavar="HEADSxPOSITIONS")
    parser.add_argument("--tensor-maps", default="host")
    parser.add_argument("--hints", default="", help="of the kernel, as `occupancy=2`")
    parser.add_argument("--against", default="", metavar="COMMIT")
    result = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"gradients: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    gpu, options = rates.gpu(result.gpu), {"tensor_maps": result.tensor_maps}
    rows = itertools.product(
        map(int, result.depths.split(",")),
        result.types.split(","),
        (False, True),
        map(_numbers, result.tiles.split(",")),
    )
    with against.checkout(result.against) if result.against else contextlib.nullcontext() as before:
        for depth, element, causal, tile in rows:
            each = job(tile, depth, element, causal, result.size, gpu, result.hints)
            now = _shown(estimates.timed(estimates.ours(each, gpu, **options), each, gpu))
            if before is not None:
                old = against.compiled(before, each, gpu, options)
                now += f"; before: {_shown(estimates.timed(old.ptx, each, gpu, metadata=old.metadata))}"
            print(f"{each.name:<28}{now}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
