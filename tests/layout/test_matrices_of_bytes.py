"""Matrices of bytes that a warp loads transposed: operands of 8-bit elements that are rows apart along K."""

import pytest

from tests.kernels.dots import by_columns, matmul
from tileiras.layout import blocked, mma_layouts
from tileiras.layout.shared import MatrixAccess
from tileiras.layout.staging import buffer_offsets, load_access
from tileiras.support import gf2
from tileiras.targets import MMA_ATOMS, matrix_loads, target

FORMS = matrix_loads(target("sm_120"))
FRAGMENTS = mma_layouts(MMA_ATOMS["mma_m16n8k32_f32_f8E4M3FN_f8E4M3FN"], 64, 128, 64, (2, 4), columns=16)


def copied(layout, contiguous):
    """The buffer that copies of 16 bytes along a dimension fill, for a fragment that is read from it."""
    vector = tuple(1 << layout.dim_shift(contiguous) + bit for bit in range(4))
    lanes = layout.shape[contiguous] // 16
    order = (contiguous, 1 - contiguous)
    sizes = [(16, 1), (lanes, 32 // lanes), (1, 8)]
    writer = blocked(layout.shape, *(size if contiguous == 0 else size[::-1] for size in sizes), order)
    return buffer_offsets(writer, vector, (layout,), 8, FORMS)


@pytest.mark.parametrize(("operand", "contiguous"), [(0, 0), (1, 1)])
def test_fragments_are_read_by_rows_of_16_bytes(operand, contiguous):
    layout = FRAGMENTS[operand]
    offsets = copied(layout, contiguous)
    access = load_access(layout, offsets, 8, FORMS)
    assert isinstance(access, MatrixAccess) and access.form.type == "b8" and access.degree == 1
    assert not isinstance(load_access(layout, offsets, 8), MatrixAccess)
    inverse = gf2.right_inverse(offsets, layout.out_bits)
    for warp in range(8):
        for lane in range(32):
            places = {
                register: gf2.apply(inverse, layout.apply(register=register, lane=lane, warp=warp))
                for register in range(layout.registers)
            }
            assert dict(access.places(warp, lane)) == places


@pytest.mark.parametrize(("operand", "contiguous"), [(0, 0), (1, 1)])
def test_eight_rows_are_in_different_banks(operand, contiguous):
    access = load_access(FRAGMENTS[operand], copied(FRAGMENTS[operand], contiguous), 8, FORMS)
    for first in range(0, 32, 8):
        rows = [gf2.apply(access.lane_map, lane) for lane in range(first, first + 8)]
        assert len({row // 16 % 8 for row in rows}) == 8 and not any(row % 16 for row in rows)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [matmul, by_columns])
@pytest.mark.parametrize("operand", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("options", [{}, {"tensor_maps": "host"}, {"pipeline_strategy": "none"}], ids=str)
def test_products_of_bytes_are_right(make, operand, options):
    make((64, 64, 64), operand=operand, steps=3).check("sm_120", **options)


@pytest.mark.parametrize(("gpu_name", "by_matrices"), [("sm_120", True), ("sm_121", True), ("sm_89", False)])
def test_targets_without_it_read_single_bytes(gpu_name, by_matrices):
    text = matmul((64, 64, 64), "f8E4M3FN", steps=3).compiled(gpu_name).text
    assert ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8" in text) == by_matrices
    assert ("ld.shared.b8" in text) != by_matrices
