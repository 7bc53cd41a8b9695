"""The entries of NAME.json for tensor maps."""

import pytest

from tileiras.codegen.tensor_map import Operand, parse, value

WHOLE = (
    "tensor_map element=bf16 address=p0 dims=p2,64 strides=p1 box=64,8 element_strides=1,2 swizzle=128 oob=nan "
    "l2=256"
)


def test_a_description_is_read():
    result = parse(WHOLE)
    assert (result.data_type, result.element_size, result.address) == (9, 2, Operand(True, 0))
    assert result.dims == (Operand(True, 2), Operand(False, 64)) and result.strides == (Operand(True, 1),)
    assert (result.box, result.element_strides) == ((64, 8), (1, 2))
    assert (result.interleave, result.swizzle, result.l2, result.oob) == (0, 3, 3, 1)
    line = parse("tensor_map element=i8 address=p1 dims=p0 box=128")
    assert (line.strides, line.element_strides, line.swizzle, line.oob) == ((), (1,), 0, 0)
    # CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B
    assert parse(WHOLE.replace("swizzle=128", "swizzle=128_atom_32")).swizzle == 4


@pytest.mark.parametrize("text", [
    "pointer to p0", WHOLE.replace("bf16", "f12"), WHOLE.replace("address=p0", "address=4"),
    WHOLE.replace("strides=p1", "strides=p1,p1", 1), WHOLE.replace("box=64,8", "box=64"), WHOLE + " swizzle=32",
    WHOLE.replace("swizzle=128", "swizzle=48"), WHOLE.replace("dims=p2", "dims=q2"), WHOLE + " colour=3",
    "tensor_map element=i8 address=p0 box=1", "tensor_map element=i8 address=p0 dims=1,1,1,1,1,1 strides=1,1,1,1,1 "
    "box=1,1,1,1,1,1",
])  # fmt: skip
def test_an_invalid_tensor_map_is_reported(text):
    with pytest.raises(ValueError, match="no tensor map"):
        parse(text)


def test_operands_are_found_among_the_parameters():
    parameters = [
        {"type": "ptr<f16>", "offset": 0, "size": 8}, {"type": "i32", "offset": 8, "size": 4},
        {"type": "i64", "offset": 16, "size": 8},
    ]  # fmt: skip
    packed = (1 << 63).to_bytes(8, "little") + (-2).to_bytes(4, "little", signed=True) + bytes(4) + b"\x07" + bytes(7)
    operands = (Operand(True, 0), Operand(True, 1), Operand(True, 2), Operand(False, 5))
    assert [value(operand, parameters, packed) for operand in operands] == [1 << 63, -2, 7, 5]
