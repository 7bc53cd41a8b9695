"""Matrix multiplications by a one-dimensional grid, whose tile blocks compute row and column from their index."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels import tensor_maps as kernels
from tileiras.sim import emulate

GROUP = 2
"""Rows of tiles in a group, whose tile blocks take the same column consecutively."""


def _sizes() -> str:
    """%tall and %wide: the tiles of C along either dimension."""
    return "".join(f"""
    %{name}_of = constant <i32: {tile}> : tile<i32>
    %{name} = divi %s_c_{axis}, %{name}_of signed rounding<positive_inf> : tile<i32>"""
                   for name, tile, axis in (("tall", kernels.TILES[0], 0), ("wide", kernels.TILES[1], 1)))  # fmt: skip


def _place(way: str, number: str) -> str:
    """%x and %y, the row and the column of a tile, computed from its index.

    `rows`: row by row; `columns`: column by column; `groups`: groups of GROUP rows column by column, the last one with
    the remaining rows, as in cuTile's `swizzle_2d`.
    """
    if way in ("rows", "columns"):
        by, quotient, rest = ("wide", "x", "y") if way == "rows" else ("tall", "y", "x")
        return f"""
    %{quotient} = divi {number}, %{by} signed rounding<negative_inf> : tile<i32>
    %{rest} = remi {number}, %{by} signed : tile<i32>"""
    return f"""
    %most = constant <i32: {GROUP}> : tile<i32>
    %in_group = muli %most, %wide : tile<i32>
    %group = divi {number}, %in_group signed rounding<negative_inf> : tile<i32>
    %first = muli %group, %most : tile<i32>
    %rows_left = subi %tall, %first : tile<i32>
    %rows = mini %rows_left, %most signed : tile<i32>
    %within = remi {number}, %rows signed : tile<i32>
    %x = addi %first, %within : tile<i32>
    %place = remi {number}, %in_group signed : tile<i32>
    %y = divi %place, %rows signed rounding<negative_inf> : tile<i32>"""


_NUMBER = "%x, %y, %z = get_tile_block_id", "%id, %id_y, %id_z = get_tile_block_id"


def swizzled(way: str = "groups") -> str:
    """C = A B as in `tensor_maps.matmul`, by as many tile blocks as C has tiles."""
    return kernels.matmul(before=_sizes() + _place(way, "%id")).replace(*_NUMBER)


def persistent(way: str = "groups") -> str:
    """C = A B by any number of tile blocks; each computes every nth tile."""
    begin = f"""{_sizes()}
    %count, %count_y, %count_z = get_num_tile_blocks : tile<i32>
    %tiles = muli %tall, %wide : tile<i32>
    for %tile in (%id to %tiles, step %count) : tile<i32> {{{_place(way, "%tile")}"""
    return kernels.matmul(before=begin, around=("", "continue }")).replace(*_NUMBER)


class Products(kernels.Arrays):
    """Launches `blocks` tile blocks, or one per tile."""

    def tiles(self) -> int:
        m, n, _ = self.sizes
        return -(-m // kernels.TILES[0]) * -(-n // kernels.TILES[1])

    def run(
        self, code: str, metadata: dict[str, Any], seed: int | None = 0, blocks: int | None = None, **limits: Any
    ) -> None:
        """Compare the kernel's results, C's padding included."""
        m, n, k = self.sizes
        c = np.full((m, n + 4 + -n % 4), -7, np.float32)
        count = -(-k // kernels.TILES[2])
        arguments = [self.a.copy(), m, k, self.a.shape[1], self.b.copy(), k, n, self.b.shape[1], c, m, n, c.shape[1]]
        result = emulate(code, "k", (blocks or self.tiles(),), [*arguments, count], metadata, seed=seed, **limits)
        assert result.searched_races
        wanted = np.full_like(c, -7)
        wanted[:, :n] = self.a[:, :k].astype(np.float32) @ self.b[:k, :n].astype(np.float32)
        np.testing.assert_array_equal(c, wanted)
