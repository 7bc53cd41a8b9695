"""Stages of every buffer that boxes fill, from the smallest tile up: elements that copies write to an address, with the
hardware's swizzle as emulated, are those that descriptors and threads read there, in every stage."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from tileiras.dialects.nv_tileas import BufferType
from tileiras.ir import IntegerType, TensorType, f64
from tileiras.layout import LinearLayout
from tileiras.layout.arena import ARENA_ALIGNMENT
from tileiras.layout.constructors import mma_layouts
from tileiras.layout.encoding import encode_offsets
from tileiras.layout.matrix_descriptor import describe, matrix_layout, swizzle_period
from tileiras.layout.shared import MatrixAccess
from tileiras.layout.staging import load_access
from tileiras.layout.tensor_box import TensorBoxes, box_layout, stage_of_boxes, tensor_boxes
from tileiras.layout.tensor_memory import scale_layout
from tileiras.sim.emulator.tensor_core.matrix_descriptor import Operand, _addresses, decode_descriptor
from tileiras.sim.emulator.tensor_core.tcgen05_operands import Matrix, unit_addresses
from tileiras.sim.emulator.tensor_core.tcgen05_operands import decode_descriptor as decode_tcgen05
from tileiras.sim.emulator.tensor_map import swizzled
from tileiras.support import gf2
from tileiras.targets import MMA_ATOMS

STAGES = 8
PARTS = (1, 2, 4)
SIZES = tuple(1 << bit for bit in range(9))
WGMMA_TYPES = {8: "s8", 16: "f16", 32: "tf32"}


def buffer_of(offsets: tuple[int, ...], shape: tuple[int, ...], bits: int) -> BufferType:
    element = f64 if bits == 64 else IntegerType(bits)
    return BufferType(STAGES, TensorType(shape, element, encode_offsets(offsets, shape)))


def starts(buffer: BufferType) -> list[int]:
    """Addresses of the stages of a buffer at the least place that its type allows."""
    first = 3 * max(128, min(buffer.alignment, ARENA_ALIGNMENT))
    return [first + stage * buffer.stage_bytes for stage in range(buffer.stages)]


def written(boxes: TensorBoxes, pieces, shape: tuple[int, ...], bits: int, start: int) -> np.ndarray:
    """The address of each element of a tile whose boxes are copied to a stage; -1 for an element outside all boxes."""
    array = np.full(shape, -1)
    inner_last = list(reversed(boxes.order))
    for piece in pieces:
        extents = [boxes.box[dim] for dim in inner_last]
        linear = start + piece.offset + np.arange(np.prod(extents)) * (bits // 8)
        assert (start + piece.offset) % boxes.alignment == 0
        addresses = swizzled(linear & ~15, boxes.swizzle, boxes.atom) | linear & 15
        corner = tuple(slice(at, at + size) for at, size in zip(piece.corner, boxes.box))
        array[corner] = addresses.reshape(extents).transpose(np.argsort(inner_last))
    return array


@functools.lru_cache(maxsize=1024)
def inside(offsets: tuple[int, ...], shape: tuple[int, ...], bits: int) -> np.ndarray:
    """The byte of each element in a stage, as threads compute it."""
    inverse = gf2.right_inverse(list(offsets), sum(n.bit_length() - 1 for n in shape))
    places = np.zeros(1, int)
    for basis in inverse:
        places = np.concatenate([places, places ^ basis])
    return places.reshape(shape) * (bits // 8)


def check(offsets: tuple[int, ...], shape: tuple[int, ...], contiguous: int, bits: int) -> BufferType:
    """Whether boxes of any number of CTAs fill the stages of a tile as threads read them; their buffer."""
    padded = stage_of_boxes(offsets, shape, contiguous, bits)
    buffer = buffer_of(padded, shape, bits)
    for parts in PARTS:
        boxes = tensor_boxes(LinearLayout({"offset": padded}, shape), contiguous, bits, parts)
        if boxes is None:
            assert parts > 1
            continue
        for start in starts(buffer):
            shares = [boxes.share(parts, number) for number in range(parts)]
            assert all(len(share) == len(boxes.pieces) // parts for share in shares)
            alignment = functools.reduce(np.maximum, (written(boxes, share, shape, bits, start) for share in shares))
            assert np.array_equal(alignment, start + inside(padded, shape, bits))
    return buffer


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("contiguous", [0, 1])
def test_boxes_fill_each_stage_as_it_is_read(bits, contiguous):
    """Of every tile of up to 256 x 256 that has rows of 16 bytes."""
    padded = []
    for rows, columns in itertools.product(SIZES, SIZES):
        if columns * bits < 128 or rows * columns > 1 << 13:
            continue
        if columns * bits > 1024 and rows < 8:
            continue  # only the first of several boxes would begin where boxes may: threads copy the tile
        shape = (rows, columns) if contiguous else (columns, rows)
        offsets = box_layout(shape, contiguous, bits).bases("offset")
        buffer = check(offsets, shape, contiguous, bits)
        if buffer.stage_bytes > buffer.tile_bytes:
            padded.append(rows)
            assert rows < 8 and buffer.stage_bytes <= 1024
    assert padded


@pytest.mark.parametrize("shape", [(32,), (1, 2, 16), (2, 1, 4, 32), (1, 1, 1, 2, 32)])
def test_boxes_of_any_rank_fill_each_stage(shape):
    for bits in (8, 16, 32):
        check(box_layout(shape, len(shape) - 1, bits).bases("offset"), shape, len(shape) - 1, bits)


def operands() -> list[tuple[tuple[int, int], int, int, str, bool]]:
    """Every operand of a matrix descriptor: shape, dimension of K, bits, contiguous dimension, whether spread."""
    result = []
    for lines, depth in itertools.product((8, 16, 32, 64, 128, 256), (8, 16, 32, 64, 128, 256)):
        for k_axis, bits, major, spread in itertools.product((0, 1), (8, 16, 32), ("k", "mn"), (False, True)):
            shape = (lines, depth) if k_axis else (depth, lines)
            try:
                matrix_layout(shape, k_axis, bits, major, spread)
            except ValueError:
                continue
            if lines * depth <= 1 << 13 and depth * bits >= 256 and depth * bits <= 2048:
                result.append((shape, k_axis, bits, major, spread))
    return result


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_descriptors_find_the_boxes_of_each_stage(bits):
    """Operands, whose layout their descriptor determines, need no padding: they have eight rows of every swizzle."""
    checked = [each for each in operands() if each[2] == bits]
    assert checked and {each[3] for each in checked} == {"k", "mn"}
    for shape, k_axis, _, major, spread in checked:
        layout = matrix_layout(shape, k_axis, bits, major, spread)
        offsets = layout.bases("offset")
        contiguous = k_axis if major == "k" else 1 - k_axis
        assert stage_of_boxes(offsets, shape, contiguous, bits) == offsets
        buffer = check(offsets, shape, contiguous, bits)
        result = describe(layout, k_axis, bits, spread)
        assert result.alignment % swizzle_period(layout, bits) == 0 and buffer.alignment % result.alignment == 0
        places = inside(offsets, shape, bits) if k_axis else inside(offsets, shape, bits).T
        for start in starts(buffer):
            reader = _tcgen05 if spread or result.atom > 16 or major == "mn" and bits != 16 else _wgmma
            assert reader(result, start, places, bits, spread)


def _wgmma(found, start: int, places: np.ndarray, bits: int, spread: bool) -> bool:
    """Whether the descriptors of all instructions along K read a K-last operand at these bytes of a stage."""
    lines, depth = places.shape
    step, height = 256 // bits, min(lines, 64)
    for row, k in itertools.product(range(0, lines, height), range(0, depth, step)):
        word = found.constant + (start + int(places[row, k]) >> 4)
        descriptor = decode_descriptor(word)
        units = _addresses(Operand(WGMMA_TYPES[bits], height, step, found.major == "mn"), descriptor)
        part = start + places[row : row + height, k : k + step]
        part = part if found.major == "k" else part.T
        if not np.array_equal(units.astype(int), part[:, :: 128 // bits].reshape(-1)):
            return False
    return True


def _tcgen05(found, start: int, places: np.ndarray, bits: int, spread: bool) -> bool:
    """Likewise for tcgen05.mma."""
    lines, depth = places.shape
    if spread:
        places = _spread(places)
    step = 256 // bits
    for k in range(0, depth, step):
        word = found.tcgen05_constant + (start + int(places[0, k]) >> 4)
        part = places[:, k : k + step]
        part = part if found.major == "k" else part.T
        part = part[:, :: 128 // bits]
        matrix = Matrix(decode_tcgen05(word), part.shape[0], part.shape[1], found.major == "mn")
        units = unit_addresses(matrix).astype(int).reshape(part.shape)
        if not np.array_equal(units[part >= 0], start + part[part >= 0]):
            return False
    return True


def _spread(places: np.ndarray) -> np.ndarray:
    """The rows of an instruction with 128; every second group of 16 has no place."""
    whole = np.full((128, places.shape[1]), -1)
    for number in range(4):
        whole[32 * number : 32 * number + 16] = places[16 * number : 16 * number + 16]
    return whole


def test_scales_begin_where_copies_to_tensor_memory_take_them():
    for count, runs, spread in itertools.product((8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16), (False, True)):
        if spread and count != 64:
            continue
        layout = scale_layout(count, runs, spread)
        buffer = buffer_of(layout.bases("offset"), layout.shape, 8)
        assert swizzle_period(layout, 8) == 16 and buffer.alignment >= 512
        for contiguous in (0, 1):
            if tensor_boxes(layout, contiguous, 8) is not None:
                assert check(layout.bases("offset"), layout.shape, contiguous, 8) is buffer


def test_threads_read_a_padded_tile_as_they_read_it_without():
    """`ldmatrix` finds its rows of 16 bytes, and vectors their elements, at the same bytes of each stage."""
    matrices = 0
    for atom in (atom for atom in MMA_ATOMS.values() if atom.executor == "warp"):
        (m, n, k), bits = atom.shape, _bits(atom.a_type)
        if bits < 8:
            continue
        layouts = mma_layouts(atom, m, n, k, (1, 1))[:2]
        for layout, contiguous in itertools.product(layouts, (0, 1)):
            plain = box_layout(layout.shape, contiguous, bits)
            if plain is None:
                continue
            offsets = plain.bases("offset")
            for offset in (offsets, (*offsets, 0, 0)):
                access = load_access(layout, offset, bits)
                assert access == load_access(layout, offsets, bits)
            if isinstance(access, MatrixAccess):
                matrices += 1
                images = (*access.offsets, *access.lane_map, *access.warp_map)
                assert not any(at * bits // 8 % 16 for at in images)
                padded = stage_of_boxes(offsets, layout.shape, contiguous, bits)
                assert all(start % 16 == 0 for start in starts(buffer_of(padded, layout.shape, bits)))
    assert matrices


def _bits(name: str) -> int:
    return {"tf32": 32}.get(name) or int("".join(ch for ch in name.split("E")[0] if ch.isdigit()))
