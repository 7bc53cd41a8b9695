"""Matrix multiplications whose arrays have sizes and strides that are known at run time, as front ends emit them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.views import whole_numbers
from tileiras.sim import emulate

TILES = (64, 64, 32)
"""Rows, columns, and the step along K."""

_VIEW = "tensor_view<?x?x{element}, strides=[?,1]>"


def view(name: str, tile: str, element: str = "f16", divisor: int = 8, aligned: int = 16, padding: str = "zero") -> str:
    """%v_NAME of the array %p_NAME of %s_NAME_0 x %s_NAME_1 elements in rows of %d_NAME, a multiple of `divisor`."""
    result = _VIEW.format(element=element)
    return f"""
    %q_{name} = assume div_by<{aligned}>, %p_{name} : tile<ptr<{element}>>
    %m_{name} = assume bounded<0, ?>, %s_{name}_0 : tile<i32>
    %n_{name} = assume bounded<0, ?>, %s_{name}_1 : tile<i32>
    %e_{name} = assume div_by<{divisor}>, %d_{name} : tile<i32>
    %t_{name} = make_tensor_view %q_{name}, shape = [%m_{name}, %n_{name}], strides = [%e_{name}, 1]
      : tile<i32> -> {result}
    %v_{name} = make_partition_view %t_{name} : partition_view<tile=({tile}), padding_value = {padding}, {result}>"""


def parameters(name: str, element: str = "f16") -> str:
    numbers = ", ".join(f"%{kind}_{name}{end}: tile<i32>" for kind, end in (("s", "_0"), ("s", "_1"), ("d", "")))
    return f"%p_{name}: tile<ptr<{element}>>, {numbers}"


def matmul(
    a: str | None = None, before: str = "", around: tuple[str, str] = ("", ""), order: str = "weak", hints: str = ""
) -> str:
    """C = A B over %steps steps of K, by one tile block for each tile of C; `a` replaces the view of A."""
    m, n, k = TILES
    tiles = (("a", f"{m}x{k}", "f16"), ("b", f"{k}x{n}", "f16"), ("c", f"{m}x{n}", "f32"))
    types = {
        name: f"partition_view<tile=({tile}), padding_value = zero, {_VIEW.format(element=element)}>"
        for name, tile, element in tiles
    }
    acc = f"tile<{m}x{n}xf32>"
    return f"""cuda_tile.module @m {{
  entry @k({parameters("a")}, {parameters("b")}, {parameters("c", "f32")}, %steps: tile<i32>) {{
    {a or view("a", f"{m}x{k}")}
    {view("b", f"{k}x{n}")}
    {view("c", f"{m}x{n}", "f32", 4)}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    {before}
    {around[0]}
    %none = constant <f32: 0.0> : {acc}
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({acc}) {{
      %a, %k_a = load_view_tko {order} %v_a[%x, %i]{hints} : {types["a"]}, tile<i32> -> tile<{m}x{k}xf16>, token
      %b, %k_b = load_view_tko weak %v_b[%i, %y] : {types["b"]}, tile<i32> -> tile<{k}x{n}xf16>, token
      %next = mmaf %a, %b, %acc : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, {acc}
      continue %next : {acc}
    }}
    %end = store_view_tko weak %sum, %v_c[%x, %y] : {acc}, {types["c"]}, tile<i32> -> token
    {around[1]}
    return
  }}
}}
"""


class Arrays:
    """A of m x k, B of k x n in rows of these and a few elements more, and the launch that multiplies them."""

    def __init__(self, m: int, n: int, k: int, extra: int = 8) -> None:
        self.sizes = m, n, k
        self.a = whole_numbers((m, k + extra + -k % 8), "f16", 1)
        self.b = whole_numbers((k, n + extra + -n % 8), "f16", 2)

    def launch(
        self, code: str, metadata: dict[str, Any], seed: int | None = 0, steps: int | None = None, times: int = 1,
        **limits: int,
    ) -> None:
        """Run the kernel and compare its results, C's padding included; `times`: number of additions of A B."""
        m, n, k = self.sizes
        c = np.full((m, n + 4 + -n % 4), -7, np.float32)
        a, b = self.a.copy(), self.b.copy()
        count = -(-k // TILES[2]) if steps is None else steps
        arguments = [a, m, k, a.shape[1], b, k, n, b.shape[1], c, m, n, c.shape[1], count]
        grid = (max(1, -(-m // TILES[0])), max(1, -(-n // TILES[1])))
        result = emulate(code, "k", grid, arguments, metadata, seed=seed, **limits)
        assert result.searched_races
        deep = min(k, count * TILES[2])
        wanted = np.full_like(c, -7)
        wanted[:, :n] = times * self.a[:, :deep].astype(np.float32) @ self.b[:deep, :n].astype(np.float32)
        np.testing.assert_array_equal(c, wanted)


def twice() -> str:
    """C = A B + A B, by two successive loops."""
    text = matmul()
    begin, end = text.index("    %sum = for"), text.index("    %end = store")
    again = text[begin:end].replace("%sum", "%total").replace("%acc = %none", "%acc = %sum")
    return text[:end] + again + text[end:].replace("weak %sum", "weak %total")


def doubled(hints: str = "") -> str:
    """C = A B + A B: A B is stored, with `hints`, loaded again, and stored as the sum of both."""
    text = matmul()
    type = f"partition_view<tile=({TILES[0]}x{TILES[1]}), padding_value = zero, {_VIEW.format(element='f32')}>"
    tile = f"tile<{TILES[0]}x{TILES[1]}xf32>"
    more = f"""
    %r, %k_r = load_view_tko weak %v_c[%x, %y] token = %end : {type}, tile<i32> -> {tile}, token
    %both = addf %r, %r : {tile}
    %last = store_view_tko weak %both, %v_c[%x, %y] token = %k_r : {tile}, {type}, tile<i32> -> token
    return"""
    return text.replace("weak %sum, %v_c[%x, %y]", f"weak %sum, %v_c[%x, %y]{hints}").replace("\n    return", more)
