import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.layout import LinearLayout, blocked, row_major_shared, swizzled_shared
from tileiras.support import gf2


def coords(layout, dim):
    return [list(c) for c in layout.to_coordinates()[dim]]


@pytest.fixture
def rows():
    return blocked((64, 64), (1, 4), (4, 8), (4, 1), (1, 0))


def test_blocked_tile(rows):
    assert coords(rows, "register") == [[0, 1], [0, 2], [0, 32], [16, 0], [32, 0]]
    assert coords(rows, "lane") == [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]]
    assert coords(rows, "warp") == [[4, 0], [8, 0]]


def test_blocked_tile_smaller_than_its_pattern_replicates():
    layout = blocked((8, 32), (1, 4), (4, 8), (2, 2), (1, 0))
    assert coords(layout, "register") == [[0, 1], [0, 2]]
    assert coords(layout, "lane") == [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]]
    assert coords(layout, "warp") == [[0, 0], [4, 0]]
    assert layout.free_variable_masks() == {"register": 0, "lane": 0, "warp": 1, "block": 0}


def test_slice_keeps_lanes_and_drops_registers(rows):
    layout = rows.slice(1)
    assert layout.bases("register") == (16, 32)
    assert layout.bases("lane") == (0, 0, 0, 1, 2)
    assert layout.bases("warp") == (4, 8)
    assert layout.free_variable_masks()["lane"] == 0b111


@pytest.mark.parametrize(
    ("shape", "bits", "span", "expected"),
    [
        ((16, 64), 16, 128, [[1, 8], [2, 16], [4, 32], [8, 0]]),
        ((16, 128), 8, 128, [[1, 16], [2, 32], [4, 64], [8, 0]]),
        ((16, 32), 32, 128, [[1, 4], [2, 8], [4, 16], [8, 0]]),
        ((16, 32), 16, 64, [[1, 0], [2, 8], [4, 16], [8, 0]]),
        ((16, 16), 32, 64, [[1, 0], [2, 4], [4, 8], [8, 0]]),
        ((16, 16), 16, 32, [[1, 0], [2, 0], [4, 8], [8, 0]]),
        ((16, 8), 16, 16, [[1, 0], [2, 0], [4, 0], [8, 0]]),
    ],
)
def test_hardware_swizzles(shape, bits, span, expected):
    layout = swizzled_shared(shape, bits, span)
    assert coords(layout, "offset")[-4:] == expected
    assert layout.is_injective and layout.is_surjective


@pytest.mark.parametrize("span", [128, 64, 32])
def test_swizzle_is_the_xor_of_address_bits(span):
    """PTX ISA: 128B: address bits 4-6 ^= 7-9; 64B: 4-5 ^= 7-8; 32B: 4 ^= 7."""
    columns = span // 2
    layout = swizzled_shared((32, columns), 16, span)
    inverse = layout.inverse()
    mask = {128: 7, 64: 3, 32: 1}[span]
    for row in range(32):
        for column in range(columns):
            linear = row * span + column * 2
            swizzled = linear ^ ((linear >> 7 & mask) << 4)
            assert gf2.apply(inverse, layout.flatten((row, column))) * 2 == swizzled


def test_wider_tiles_are_split_into_column_blocks():
    layout = swizzled_shared((8, 128), 16, 128)
    assert coords(layout, "offset")[-1] == [0, 64]


def test_row_major_offset_is_the_position():
    assert row_major_shared((16, 64)).bases("offset") == tuple(1 << i for i in range(10))


def test_unpermute_takes_a_permutation_back():
    layout = blocked((4, 8, 16), (1, 2, 4), (2, 4, 4), (2, 1, 1), (2, 1, 0))
    for permutation in itertools.permutations(range(3)):
        assert layout.permute(permutation).unpermute(permutation) == layout


def test_permute_and_reshape_keep_elements_in_place(rows):
    turned = rows.permute((1, 0))
    for register, lane, warp in [(5, 3, 2), (31, 31, 3), (8, 17, 1)]:
        r, c = rows.coordinates(rows.apply(register=register, lane=lane, warp=warp))
        assert turned.coordinates(turned.apply(register=register, lane=lane, warp=warp)) == (c, r)
    assert rows.reshape((4096,)).columns == rows.columns
    assert rows.reshape((64, 1, 64)).columns == rows.columns


def test_shrink_leaves_replicated_values_in_one_register(rows):
    assert rows.shrink((64, 1)) == rows.slice(1).reshape((64, 1))


def test_parts_of_registers_are_in_the_threads_of_the_whole(rows):
    """Each element of each part, in the register of the whole that has it."""
    shape = (32, 32)
    part = rows.part(shape)
    assert part.shape == shape and part.registers == rows.registers // 4
    for number in itertools.product(range(2), repeat=2):
        registers = rows.part_registers(shape, number)
        for register, lane in itertools.product(range(part.registers), range(32)):
            place = part.coordinates(part.apply(register=register, lane=lane))
            whole = rows.coordinates(rows.apply(register=registers[register], lane=lane))
            assert whole == tuple(32 * n + at for n, at in zip(number, place))


def test_no_part_is_in_threads_that_differ_in_it(rows):
    assert rows.part((64, 16)) is None  # lanes along the columns
    assert rows.part((4, 64)) is None  # warps along the rows
    skewed = rows.with_bases("register", [1, 2, 32, 16 * 64 | 1, 32 * 64])
    assert skewed.part((16, 64)) is None and skewed.part((32, 64)) is not None
    assert rows.part_registers((32, 64), (2, 0)) is None


def test_inverse_finds_the_holder_of_each_element(rows):
    inverse = rows.inverse()
    for flat in (0, 1, 77, 4095):
        index = rows.split(gf2.apply(inverse, flat))
        assert rows.apply(**index) == flat


def test_right_inverse_prefers_registers():
    layout = LinearLayout({"register": [1], "lane": [1, 2], "warp": [2]}, (4,))
    assert [layout.split(x) for x in layout.right_inverse()] == [
        {"register": 1, "lane": 0, "warp": 0, "block": 0},
        {"register": 0, "lane": 2, "warp": 0, "block": 0},
    ]
    assert layout.free_variable_masks() == {"register": 0, "lane": 1, "warp": 1, "block": 0}


def test_equal_layouts_hash_equal(rows):
    again = blocked((64, 64), (1, 4), (4, 8), (4, 1), (1, 0))
    assert rows == again and hash(rows) == hash(again)
    assert rows != rows.permute((1, 0))


def test_basis_outside_the_tile_is_refused():
    with pytest.raises(ValueError, match="outside"):
        LinearLayout({"register": [4]}, (4,))
    with pytest.raises(ValueError, match="power of two"):
        LinearLayout({}, (3,))
    with pytest.raises(ValueError, match="unknown layout dimension"):
        LinearLayout({"thread": [1]}, (2,))


@settings(deadline=None)
@given(st.lists(st.integers(0, 255), max_size=8), st.integers(0, 255))
def test_shifted_masks_are_the_map(columns, x):
    x &= (1 << len(columns)) - 1
    image = 0
    for mask, shift in gf2.shifted_masks(columns):
        image ^= (x & mask) << shift if shift >= 0 else (x & mask) >> -shift
    assert image == gf2.apply(columns, x)


@settings(deadline=None)
@given(st.lists(st.integers(0, 63), max_size=8), st.integers(0, 255))
def test_solutions_solve(columns, combination):
    combination &= (1 << len(columns)) - 1
    target = gf2.apply(columns, combination)
    solution = gf2.Echelon(columns).solve(target)
    assert solution is not None and gf2.apply(columns, solution) == target
