import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.layout import LinearLayout, memory


def test_rows_of_floats_are_loaded_16_bytes_at_a_time():
    layout = memory.coalesced((64, 128), 32, (1, 0), 4, contiguous=128, divisibility=16)
    assert layout.bases("register")[:2] == (1, 2)
    assert layout.bases("lane") == (4, 8, 16, 32, 64)
    assert layout.bases("warp") == (128, 256), "a row stays in one warp"


def test_vectors_are_capped_by_alignment_and_a_threads_share():
    assert memory.coalesced((1024,), 16, (0,), 4, contiguous=1024, divisibility=4).bases("register")[:1] == (1,)
    assert memory.coalesced((1024,), 16, (0,), 4, contiguous=1024, divisibility=4).bases("lane")[0] == 2
    assert memory.coalesced((128,), 32, (0,), 4, contiguous=128, divisibility=16).bases("register") == ()


def test_lanes_follow_memory_order():
    layout = memory.coalesced((32, 64), 32, memory.dimension_order((1, None)), 4, contiguous=1)
    assert layout.bases("lane") == tuple(64 << i for i in range(5))


def test_order_puts_known_small_strides_first():
    assert memory.dimension_order((None, 1)) == (1, 0)
    assert memory.dimension_order((1, None)) == (0, 1)
    assert memory.dimension_order((64, 64)) == (1, 0)


def test_small_tile_replicates_over_lanes_and_warps():
    layout = memory.coalesced((16,), 32, (0,), 4, contiguous=16, divisibility=16)
    assert layout.free_variable_masks()["warp"] == 3
    assert layout.is_surjective
    assert memory.coalesced((), 32, (), 4).bases("lane") == (0,) * 5


def test_vector_registers_of_a_foreign_layout():
    layout = LinearLayout({"register": [64, 2, 1], "lane": [4, 8, 16, 32, 128]}, (256,))
    assert memory.vector_registers(layout, 0, 32, contiguous=256, divisibility=16) == (2, 1)
    assert memory.vector_registers(layout, 0, 32, contiguous=256, divisibility=8) == (2,)
    assert memory.vector_registers(layout, 0, 32, contiguous=1, divisibility=16) == ()
    assert memory.register_groups(8, (2, 1)) == ((0, 4, 2, 6), (1, 5, 3, 7))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.sampled_from([8, 16, 32, 64]),
    st.integers(0, 3),
    st.sampled_from([1, 2, 4, 8, 16, 32]),
)
def test_every_element_is_held_and_vectors_fit(logs, bits, log_warps, divisibility):
    shape = tuple(1 << n for n in logs)
    order = tuple(reversed(range(len(shape))))
    layout = memory.coalesced(shape, bits, order, 1 << log_warps, contiguous=shape[-1], divisibility=divisibility)
    assert layout.is_surjective and layout.warps == 1 << log_warps and layout.count("lane") == 32
    assert layout.free_variable_masks()["register"] == 0
    vector = memory.vector_registers(layout, order[0], bits, contiguous=shape[-1], divisibility=divisibility)
    assert (bits << len(vector)) <= max(bits, min(128, 8 * divisibility))


@pytest.mark.parametrize(
    ("bits", "divisibility", "elements"), [(32, 16, 4), (16, 16, 8), (8, 1, 1), (64, 64, 2), (1, 4, 4)]
)
def test_access_elements(bits, divisibility, elements):
    assert memory.access_elements(bits, divisibility) == elements
