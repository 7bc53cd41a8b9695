"""Reductions and scans: a pure region of scalars combines the elements along one dimension.

The region takes two scalars per tile, the running value and the next element, and yields one per tile.  The order in
which elements are combined is not fixed.
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Sequence

from tileiras.ir import (
    ArrayAttr,
    Attribute,
    RecursiveMemoryEffects,
    Region,
    VerifyError,
    attribute,
    bf16,
    f16,
    has_no_effect,
    region,
    variadic_operand,
    variadic_result,
)

from .constraints import BoolAttr, I32Attr
from .operation import TileOp
from .traits import EndsWith, OneBlock, SameOperandsShape
from .types import TileType


class _Aggregate(TileOp):
    """Base of reduce and scan."""

    traits = (RecursiveMemoryEffects, SameOperandsShape, OneBlock("body"), EndsWith("cuda_tile.yield"))
    operands = variadic_operand(TileType, "the tiles, all of one shape")
    dim = attribute(I32Attr, "the dimension along which elements are combined")

    _verify_results: ClassVar[Callable[..., None]]

    def verify_op(self) -> None:
        tiles = [value.type for value in self.operands]
        if self.dim.value < 0:
            raise VerifyError(
                "attribute 'dim' failed to satisfy constraint: 32-bit signless integer attribute whose value is"
                " non-negative"
            )
        if not tiles:
            raise VerifyError("expect at least 1 operand")
        if len(tiles) != len(self.results):
            raise VerifyError("expect same number of operands and results")
        self._verify_identities(tiles)
        rank = tiles[0].rank
        if self.dim.value >= rank:
            raise VerifyError(f"dimension ({self.dim.value}) is out of bound [0, {rank})")
        self._verify_results(tiles)
        self._verify_body(tiles)

    def _verify_identities(self, tiles: list[Any]) -> None:
        identities = self.attributes["identities"].elements  # type: ignore[attr-defined]
        if len(identities) != len(tiles):
            raise VerifyError(
                f"expect identities to match the number of operands but got: {len(tiles)} operands and"
                f" {len(identities)} identities"
            )
        for number, (tile, identity) in enumerate(zip(tiles, identities)):
            result, element = getattr(identity, "type", None), tile.element_type
            if result is not element and {result, element} != {f16, bf16}:
                raise VerifyError(
                    f"expect same type for operand at index: {number} and identity at index: {number} but got:"
                    f" '{element}' and '{result}'"
                )

    def _verify_body(self, tiles: list[Any]) -> None:
        block = self.regions[0].block
        if block.last is None:
            raise VerifyError("expect non-empty block")
        arguments = [argument.type for argument in block.arguments]
        if len(arguments) != 2 * len(tiles):
            raise VerifyError(f"expect {2 * len(tiles)} block arguments but got: {len(arguments)}")
        for number, type in enumerate(arguments):
            if not isinstance(type, TileType) or type.rank:
                raise VerifyError(f"expect 0-rank tile type at index: {number} but got: '{type}'")
        for number in range(0, len(arguments), 2):
            first, second = arguments[number].element_type, arguments[number + 1].element_type
            if first is not second:
                raise VerifyError(
                    f"expect same element type for block argument at index: {number} and {number + 1} but got:"
                    f" '{first}' and '{second}'"
                )
        for number, tile in enumerate(tiles):
            if tile.element_type is not arguments[2 * number].element_type:
                raise VerifyError(
                    f"expect same type for operand at index: {number} and block argument at index: {2 * number} but"
                    f" got: '{tile.element_type}' and '{arguments[2 * number].element_type}'"
                )
        yielded = [value.type for value in block.last.operands]
        if len(yielded) != len(tiles):
            raise VerifyError(
                f"expect number of terminators operands ({len(yielded)}) to match number of operands ({len(tiles)})"
            )
        for number, (tile, type) in enumerate(zip(tiles, yielded)):
            if not isinstance(type, TileType):
                raise VerifyError(f"expected TileType for operand and terminator types but got: '{tile}' and '{type}'")
            if tile.element_type is not type.element_type:
                raise VerifyError(
                    f"expect same type for operand at index: {number} and terminator argument at index: {number} but"
                    f" got: '{tile.element_type}' and '{type.element_type}'"
                )
            # NVIDIA's verifier stops at element types; its compiler then fails with code 5.
            if type.rank:
                raise VerifyError(
                    f"expect 0-rank tile type for terminator argument at index: {number} but got: '{type}'"
                )
        for inner in block.operations:
            # Since 13.4 operations with undefined behaviour, such as a division, count as pure as well.
            if inner is not block.last and not has_no_effect(inner):
                raise VerifyError(
                    f"'{inner.name}' op only pure operations are allowed inside '{self.name}'",
                    location=inner.location,
                    prefix=False,
                )


class ReduceOp(_Aggregate, name="cuda_tile.reduce", since="13.1", opcode=0x58):
    """Combines all elements along `dim`, which the results do not have any more."""

    identities = attribute(ArrayAttr, "per tile, the value that combining with changes nothing")
    results = variadic_result(TileType, "the combined elements")
    body = region("how two elements are combined")
    assembly_format = (
        "$operands attr-dict ` ` `dim` `` `=` `` $dim `identities` `` `=` `` $identities"
        " `:` custom<CudaTileType>(type($operands)) `->` custom<CudaTileType>(type($results))"
        " custom<ArgumentRegion>($body)"
    )

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [cls._reduce(value.type, attributes["dim"].value) for value in operands]

    @staticmethod
    def _reduce(tile: TileType, dim: int) -> TileType:
        return tile.with_shape(size for number, size in enumerate(tile.shape) if number != dim)

    def _verify_results(self, tiles: list[Any]) -> None:
        types = [self._reduce(tile, self.dim.value) for tile in tiles]
        value = [result.type for result in self.results]
        if value != types:
            words = [", ".join(f"'{type}'" for type in types) for types in (types, value)]
            raise VerifyError(
                f"inferred type(s) {words[0]} are incompatible with return type(s) of operation {words[1]}",
                also=("failed to infer returned types",),
            )

    def asm_result_names(self) -> list[tuple[Any, str]]:
        return [(self.results[0], "reduce")] if self.results else []

    def asm_block_argument_names(self, region: Region) -> list[tuple[Any, str]]:
        arguments = region.blocks[0].arguments if region.blocks else ()
        return [
            (
                argument,
                f"reduce_{'rhs' if number % 2 else 'lhs'}{number // 2 if len(arguments) > 2 else ''}",
            )
            for number, argument in enumerate(arguments)
        ]


class ScanOp(_Aggregate, name="cuda_tile.scan", since="13.1", opcode=0x5E):
    """Running combination along `dim`: each element is combined with all before it."""

    reverse = attribute(BoolAttr, "whether to start at the end")
    identities = attribute(ArrayAttr, "per tile, the value that combining with changes nothing")
    results = variadic_result(TileType, "the running values")
    body = region("how two elements are combined")
    assembly_format = (
        "$operands attr-dict ` ` `dim` `` `=` `` $dim `reverse` `` `=` `` $reverse `identities` `` `=` `` $identities"
        " `:` custom<CudaTileType>(type($operands)) `->` custom<CudaTileType>(type($results))"
        " custom<ArgumentRegion>($body)"
    )

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [value.type for value in operands]

    def _verify_results(self, tiles: list[Any]) -> None:
        for number, (tile, result) in enumerate(zip(tiles, self.results)):
            if tile is not result.type:
                raise VerifyError(f"expect same type for operand at index: {number} and result at index: {number}")
