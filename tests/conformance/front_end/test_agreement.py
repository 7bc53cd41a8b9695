"""Comparison of two states of memory after a launch."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def compared(expected, actual, undefined=None):
    from agreement import compare, contents
    from device import HostMemory

    memory = HostMemory()
    memory.add(actual.untyped_storage().data_ptr(), actual.untyped_storage().nbytes())
    wanted = [expected.view(torch.uint8).reshape(-1).numpy().copy()]
    return compare([actual], memory, wanted, contents(memory), undefined)[0]


def test_floats_may_differ_by_the_order_of_sums():
    numbers = torch.arange(16, dtype=torch.float32)
    assert compared(numbers, numbers.clone()) == "same"
    assert compared(numbers, numbers * (1 + 2**-20)) == "close"
    assert compared(numbers, numbers * 1.01) == "differs"
    assert compared(numbers.half(), numbers.half() + 2**-8) == "close"


def test_a_nan_is_a_nan_and_an_infinity_is_not():
    numbers = torch.tensor([1.0, float("nan"), 2.0])
    other = numbers.clone()
    other.view(torch.int32)[1] ^= 1
    assert compared(numbers, other) == "same"
    assert compared(numbers, torch.tensor([1.0, float("inf"), 2.0])) == "differs"


def test_integers_have_to_be_equal_where_they_are_defined():
    numbers = torch.arange(4, dtype=torch.int32)
    other = torch.tensor([0, 1, 2, 7], dtype=torch.int32)
    assert compared(numbers, other) == "differs"
    where = np.zeros(16, np.bool_)
    where[12:] = True
    assert compared(numbers, other, [where]) == "same"
