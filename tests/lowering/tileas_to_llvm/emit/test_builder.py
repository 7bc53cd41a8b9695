"""Vectors are assembled only for their users: elements are taken from their sources."""

import pytest

from tileiras.dialects import llvm
from tileiras.ir import Block, VectorType, f16, f32, i32
from tileiras.lowering.tileas_to_llvm.emit.emitter import Emitter


@pytest.fixture
def emit():
    return Emitter(Block((i32, i32, VectorType((2,), f16), VectorType((2,), f16), VectorType((4,), f32))))


def names(emit):
    emit.sweep()
    return [op.name.partition(".")[2] for op in emit.block.operations]


def test_an_element_of_a_built_vector_is_its_operand(emit):
    a, b, *_ = emit.block.arguments
    vector = emit.build([a, b, a])
    assert emit.extract(vector, 1) is b and emit.shuffle(vector, (0,)) is a
    assert names(emit) == []


def test_a_part_of_joined_vectors_is_that_vector(emit):
    *_, low, high, _ = emit.block.arguments
    joined = emit.concat([low, high])
    assert emit.shuffle(joined, (2, 3)) is high
    again = emit.shuffle(emit.shuffle(joined, (3, 1, 2, 0)), (3, 1))
    assert again is low
    assert names(emit) == []


def test_elements_of_several_sources_are_taken_from_the_vector(emit):
    *_, low, high, _ = emit.block.arguments
    mixed = emit.shuffle(emit.concat([low, high]), (1, 2))
    emit.insert(llvm.FNegOp(mixed))
    assert names(emit) == ["shuffle", "shuffle", "fneg"]


def test_a_round_trip_of_reinterpretation_is_the_identity(emit):
    a, b, *_ = emit.block.arguments
    words = emit.build([a, b])
    assert emit.bitcast(emit.bitcast(words, VectorType((2,), f32)), words.type) is words
    # Of an element in between, the word that it is made of.
    element = emit.extract(emit.bitcast(words, VectorType((2,), f32)), 1)
    assert emit.bitcast(element, i32) is b
    assert names(emit) == []


def test_an_element_is_extracted_once_and_only_if_it_is_used(emit):
    *_, vector = emit.block.arguments
    first = emit.extract(vector, 2)
    assert emit.extract(vector, 2) is first
    emit.insert(llvm.FNegOp(first))
    emit.extract(vector, 3)
    assert names(emit) == ["extract", "fneg"]


def test_the_same_element_everywhere_is_spread_anew(emit):
    a, *_ = emit.block.arguments
    spread = emit.splat(a, 4)
    assert emit.extract(spread, 3) is a
    half = emit.shuffle(spread, (0, 2))
    emit.insert(llvm.AddOp(half, half))
    assert names(emit) == ["insert", "shuffle", "add"]
