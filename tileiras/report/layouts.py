"""Layouts of a kernel's tiles, data movement of their conversions, and accesses to shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Attribute, Operation, TensorType, Type
from tileiras.layout.arena import stored_bits
from tileiras.layout.convert import NoConversion, RegisterPermutation, plan_conversion
from tileiras.layout.encoding import is_in_shared, layout_of, offsets_of
from tileiras.layout.scratch import stores_matrices
from tileiras.layout.shared import MATRIX_FORMS, MatrixAccess, SharedAccess, SharedPlan
from tileiras.layout.staging import in_whole, load_access, store_access
from tileiras.report.model import Conversion, Layout, SharedUse
from tileiras.targets import TARGETS, MatrixForm, matrix_loads

_ALIAS = re.compile(r"^#(\w+) = (.*)$", re.MULTILINE)


class Names:
    """Names of the layouts in a module's text."""

    def __init__(self, text: str) -> None:
        self._aliases = {definition.strip(): f"#{name}" for name, definition in _ALIAS.findall(text)}

    def of(self, encoding: Attribute) -> str:
        return self._aliases.get(str(encoding), str(encoding))

    def typed(self, type: TensorType) -> str:
        """`#layout3, 128x128xf32`."""
        shape = "x".join(map(str, (*type.shape, type.element_type)))
        return f"{self.of(type.encoding)}, {shape}"


def tile_of(type: Type) -> TensorType | None:
    """The tile type of a tile, of a tile in flight, or of the tiles of a buffer; None if it has no layout."""
    inner = getattr(type, "tile", type)
    return inner if isinstance(inner, TensorType) and inner.encoding is not None else None


def layouts(module: Operation, lines: Sequence[int], names: Names) -> tuple[Layout, ...]:
    """The layouts of all tiles, in order of occurrence; equal layouts of one tile type are merged."""
    result: dict[TensorType, list[int]] = {}
    for line, op in zip(lines, module.walk()):
        values = [*op.results, *(each for region in op.regions for block in region.blocks for each in block.arguments)]
        for value in values:
            tile = tile_of(value.type)
            if tile is not None and line not in result.setdefault(tile, []):
                result[tile].append(line)
    return tuple(_layout(tile, names, where) for tile, where in result.items())


def _layout(tile: TensorType, names: Names, lines: Sequence[int]) -> Layout:
    layout = layout_of(tile)
    bases = {name: tuple(vectors) for name, vectors in layout.to_coordinates().items() if vectors}
    kind = "shared memory" if "offset" in layout.dims else "registers"
    return Layout(
        names.typed(tile), kind, tuple(tile.shape), str(tile.element_type), stored_bits(tile.element_type), bases,
        tuple(lines),
    )  # fmt: skip


def conversions(
    module: Operation, lines: Sequence[int], names: Names, places: Mapping[int, tuple[int, ...]], gpu: str
) -> tuple[Conversion, ...]:
    """Data movement of each `convert_layout`; `places`: line -> its places in the source."""
    result = []
    for line, op in zip(lines, module.walk()):
        if isinstance(op, tileas.ConvertLayoutOp) and not is_in_shared(op.result.type):
            result.append(_conversion(op, line, names, places.get(line, ()), gpu))
    return tuple(result)


def _conversion(
    op: tileas.ConvertLayoutOp, line: int, names: Names, places: tuple[int, ...], gpu: str
) -> Conversion:
    source, target = op.operand.type, op.result.type
    bits = stored_bits(source.element_type)
    plan = plan_conversion(layout_of(source), layout_of(target), max(8, bits), stores_matrices(gpu))
    kind, size, counts = "shuffles", 0, (0, 0, 0, 0)
    if isinstance(plan, SharedPlan):
        kind = "shared memory"
        areas = tileas.scratch_areas(op)
        size = sum(area.bytes for area in areas) or plan.bytes
        counts = (*_wavefronts(plan.store, plan.element_bits), *_wavefronts(plan.load, plan.element_bits))
    elif isinstance(plan, (NoConversion, RegisterPermutation)):
        kind = "none" if isinstance(plan, NoConversion) else "registers"
    return Conversion(line, places, names.typed(source), names.typed(target), kind, size, *counts)


def _wavefronts(access: SharedAccess | MatrixAccess, bits: int) -> tuple[int, int]:
    """Wavefronts of one warp's accesses, with and without bank conflicts."""
    wavefronts = access.wavefronts(bits)
    return wavefronts, wavefronts // max(1, access.degree)


def shared_uses(
    module: Operation, lines: Sequence[int], names: Names, places: Mapping[int, tuple[int, ...]], gpu: str
) -> tuple[SharedUse, ...]:
    """Copies of tiles to and from buffers of shared memory, with the bank conflicts of their layouts."""
    result = []
    forms = matrix_loads(TARGETS[gpu]) if gpu in TARGETS else MATRIX_FORMS
    for line, op in zip(lines, module.walk()):
        for use, tile, access, bits in _accesses(op, forms):
            count, least = _wavefronts(access, bits)
            result.append(
                SharedUse(line, places.get(line, ()), use, names.typed(tile), access.vector * bits // 8, count, least)
            )
    return tuple(result)


def _accesses(
    op: Operation, forms: tuple[MatrixForm, ...]
) -> Iterator[tuple[str, TensorType, SharedAccess | MatrixAccess, int]]:
    """(activity, the tile in shared memory, its access, bits of an element)."""
    if not isinstance(op, (tileas.CopyOp, tileas.StoreTensorOp, tileas.AsyncLoadOp, tileas.AsyncTiledLoadOp)):
        return
    tile = op.buffer.type.tile
    if not is_in_shared(tile):
        return
    bits, offsets = stored_bits(tile.element_type), offsets_of(tile)
    try:
        if isinstance(op, tileas.CopyOp):
            if not is_in_shared(op.result.type):
                layout = in_whole(layout_of(op.result.type), tuple(tile.shape))
                yield "read into registers", tile, load_access(layout, offsets, bits, forms), bits
        elif isinstance(op, tileas.StoreTensorOp):
            if op.part is None:
                yield "written from registers", tile, store_access(layout_of(op.tensor.type), offsets, bits), bits
        else:
            layout = layout_of(TensorType(tile.shape, tile.element_type, op.layout))
            width = op.atom.vector_size.bit_length() - 1
            yield "copied from global memory", tile, store_access(layout, offsets, bits, width), bits
    except ValueError:
        return  # a hand-written layout that lowering rejects
