"""Operations, values, blocks and types: use lists, fields, cloning, interning."""

from __future__ import annotations

import copy
import pickle

import pytest

from tileiras.ir import (
    AllTypesMatch,
    AttrSizedOperandSegments,
    Block,
    Builder,
    DenseElementsAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    NoTerminator,
    Operation,
    Pure,
    Region,
    TensorType,
    UnitAttr,
    VerifyError,
    attribute,
    f16,
    f32,
    i1,
    i8,
    i32,
    operand,
    optional_operand,
    region,
    result,
    variadic_operand,
)


class ColorAttr(EnumAttr):
    name = "coretest.color"
    cases = {"red": 0, "green": 1}


class SourceOp(Operation):
    name = "coretest.source"
    traits = (Pure,)
    result = result()


class PairOp(Operation):
    name = "coretest.pair"
    traits = (Pure, AllTypesMatch("lhs", "rhs", "result"))
    lhs = operand()
    rhs = operand()
    color = attribute(ColorAttr, default=ColorAttr("red"))
    shiny = attribute(UnitAttr, optional=True)
    result = result()


class SegmentsOp(Operation):
    name = "coretest.segments"
    traits = (AttrSizedOperandSegments,)
    first = variadic_operand()
    second = optional_operand()
    third = variadic_operand()


class BoxOp(Operation):
    name = "coretest.box"
    traits = (NoTerminator,)
    body = region()


def test_a_value_knows_its_users_in_order_of_first_use() -> None:
    source = SourceOp(result=f32)
    a = PairOp(source.result, source.result)
    b = PairOp(a.result, source.result)
    assert source.result.users == [a, b]
    assert not source.result.has_one_use
    assert a.result.has_one_use
    other = SourceOp(result=f32)
    source.result.replace_all_uses_with(other.result)
    assert source.result.users == []
    assert a.operands == (other.result, other.result)
    assert other.result.users == [a, b]


def test_results_are_inferred_from_matching_operands() -> None:
    source = SourceOp(result=f32)
    assert PairOp(source.result, source.result).result.type is f32
    with pytest.raises(TypeError, match="needs its result types"):
        SourceOp()


def test_attributes_convert_from_words_and_flags_and_default() -> None:
    source = SourceOp(result=f32).result
    plain = PairOp(source, source)
    assert plain.color is ColorAttr("red") and "color" not in plain.attributes
    assert plain.shiny is None
    fancy = PairOp(source, source, color="green", shiny=True)
    assert fancy.color is ColorAttr("green") and fancy.shiny is UnitAttr()
    with pytest.raises(TypeError, match="no field 'colour'"):
        PairOp(source, source, colour="green")


def test_segments_tell_optional_and_variadic_operands_apart() -> None:
    a, b, c = (SourceOp(result=f32).result for _ in range(3))
    assert SegmentsOp([a, b], None, [c]).third == (c,)
    op = SegmentsOp([a], b, [c, a])
    assert (op.first, op.second, op.third) == ((a,), b, (c, a))
    assert op.attributes["operandSegmentSizes"].elements == (1, 1, 2)


def test_erasing_something_used_is_refused() -> None:
    block = Block()
    source = block.append(SourceOp(result=f32))
    block.append(PairOp(source.result, source.result))
    with pytest.raises(ValueError, match="still used"):
        source.erase()


def test_clone_maps_operands_results_and_nested_operations() -> None:
    outer = SourceOp(result=f32)
    inner = Block()
    pair = inner.append(PairOp(outer.result, outer.result, color="green"))
    inner.append(PairOp(pair.result, outer.result))
    box = BoxOp(body=Region([inner]))
    new = SourceOp(result=f32)
    copied = box.clone({outer.result: new.result})
    first, second = copied.body.block.operations
    assert first.operands == (new.result, new.result) and first.color is ColorAttr("green")
    assert second.operands == (first.result, new.result)
    assert new.result.users == [first, second]


def test_blocks_keep_order_under_insertion_removal_and_splitting() -> None:
    block = Block()
    region_ = Region([block])
    a, b, c = (block.append(SourceOp(result=i32)) for _ in range(3))
    d = Builder.before(b).insert(SourceOp(result=i32))
    assert list(block.operations) == [a, d, b, c]
    assert d.is_before_in_block(b) and not c.is_before_in_block(a)
    b.detach()
    assert list(block.operations) == [a, d, c]
    rest = block.split_before(d)
    assert region_.blocks == [block, rest]
    assert list(block.operations) == [a] and list(rest.operations) == [d, c]


def test_a_builder_sets_its_location_on_operations_without_one() -> None:
    from tileiras.ir import FileLineColLoc

    here, there = FileLineColLoc("k.py", 3, 1), FileLineColLoc("k.py", 4, 1)
    block = Block()
    builder = Builder.at_end(block, here)
    assert builder.insert(SourceOp(result=f32)).location == here
    assert builder.insert(SourceOp(result=f32, location=there)).location == there


def test_equal_types_and_attributes_are_identical() -> None:
    assert TensorType((4, 4), f32) is TensorType([4, 4], f32)
    assert TensorType((4,), f32) is not TensorType((4,), f16)
    assert copy.deepcopy(ColorAttr("green")) is ColorAttr("green")
    assert pickle.loads(pickle.dumps(TensorType((8,), i8))) is TensorType((8,), i8)
    with pytest.raises(VerifyError, match=r"expected one of \[red, green\]"):
        ColorAttr("blue")


def test_integers_are_kept_as_the_bits_of_their_type() -> None:
    assert IntegerAttr(255, i8) is IntegerAttr(-1, i8)
    assert IntegerAttr(-1, i1).value == 1
    assert IntegerAttr(-1, i8).unsigned == 255


def test_float_constants_are_bit_patterns() -> None:
    assert FloatAttr(0x8000, f16) is not FloatAttr(0, f16)
    assert FloatAttr(0x7E01, f16) is not FloatAttr(0x7E00, f16)
    assert FloatAttr.from_float(1.0, f32).bits == 0x3F800000


def test_a_repeated_element_is_a_splat() -> None:
    type = TensorType((4,), i32)
    assert DenseElementsAttr(type, bytes([7, 0, 0, 0]) * 4) is DenseElementsAttr(type, bytes([7, 0, 0, 0]), True)
    assert DenseElementsAttr(type, bytes(range(16))).is_splat is False
    assert DenseElementsAttr(type, bytes([7, 0, 0, 0]), True).element_bits() == [7, 7, 7, 7]
    with pytest.raises(VerifyError, match="expected 16 bytes"):
        DenseElementsAttr(type, bytes(12), False)


def test_dictionaries_sort_their_keys() -> None:
    assert DictAttr({"b": UnitAttr(), "a": UnitAttr()}) is DictAttr({"a": UnitAttr(), "b": UnitAttr()})
