"""Kernels that are bound once and launched often: the same calls and parameters as those of `launch`."""

import ctypes
import struct
import threading
import time

import numpy as np
import pytest
from described import PTX, description, parameters

from tileiras.runtime import ArgumentError, DriverError, bind, launch

TYPES = ("ptr<f32>", "i32", "f32", "ptr<f16>", "i64", "f64", "i8", "f16", "i32")
VALUES = (0, 7, 0.5, 8192, -(1 << 40), 0.25, -3, 1.5, -300)


@pytest.fixture
def bound(stand_in):
    """A function that binds the kernel of a description, in a context that is current."""

    def bind_with(*types, **changes):
        stand_in.reset(has_context=True)
        kernel = bind(PTX, "k", metadata=description(*types, **changes))
        stand_in.reset(has_context=True)
        return kernel

    return bind_with


@pytest.mark.parametrize("grid", [(4, 2, 1), (3, 2, 1), 5])
@pytest.mark.parametrize("changes", [
    {}, {"shared_memory": 1024}, {"cluster": [2, 1, 1]}, {"cluster": [2, 1, 1], "blocks_are_clusters": True},
    {"cluster_blocks": [2, 2]}, {"tile_launch": True},
])  # fmt: skip
def test_a_bound_kernel_is_launched_as_by_launch(stand_in, bound, changes, grid):
    stand_in.reset(has_context=True)
    launch(PTX, "k", grid, VALUES, 77, metadata=description(*TYPES, **changes))
    expected = [line for line in stand_in.log if line.startswith(("launch", "parameters"))]
    kernel = bound(*TYPES, **changes)
    for _ in range(2):
        stand_in.reset(has_context=True)
        kernel(grid, VALUES, 77)
        assert stand_in.log == expected and len(expected) == 2


def test_grid_stream_and_arguments_may_change_between_launches(stand_in, bound):
    kernel = bound("ptr<f32>", "i32", "f32", cluster_blocks=[2])
    for number, (grid, stream) in enumerate([((1, 1, 1), 0), ((2, 1, 1), 5), ((2, 1, 1), 6), ((3, 1, 1), 6)]):
        stand_in.reset(has_context=True)
        kernel(grid, (0, number, 0.5), stream)
        text = " attribute 4: 2 1 1" if grid[0] % 2 == 0 else ""
        assert stand_in.log[0] == f"launch grid {grid[0]} 1 1 block 128 1 1 shared 0 stream {stream}{text}"
        assert parameters(stand_in) == struct.pack("<Qif", 0, number, 0.5)


@pytest.mark.parametrize("types, values", [
    (("i1", "bf16"), (True, 1.0)),
    (("i32",), (0xFFFFFFFF,)),  # as unsigned
    (("ptr<f32>", "i32"), (np.ones(4, np.float32), 1)),
    ((), ()),
])  # fmt: skip
def test_other_arguments_take_the_way_of_launch(stand_in, bound, types, values):
    kernel = bound(*types)
    kernel(1, values)
    assert any(line.startswith("launch grid 1 1 1") for line in stand_in.log)
    if not isinstance(values[0] if values else 0, np.ndarray) and values:
        assert len(parameters(stand_in)) > 0


class Element:
    """A number that is an object of another kind, as a tensor of one integer is."""

    def __index__(self):
        return 4096


@pytest.mark.parametrize("values, message", [
    ((4096,), "takes 2 arguments, got 1"), ((4096, 1, 2), "takes 2 arguments, got 3"),
    ((4096, "1"), "argument 1"), ((4096, 1 << 40), "does not fit"), ((True, 1), "truth value"),
    ((0.5, 1), "argument 0"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_named(bound, values, message):
    kernel = bound("ptr<f32>", "i32")
    with pytest.raises(ArgumentError, match=message):
        kernel(1, values)


def test_a_pointer_is_taken_from_an_int_alone(stand_in, bound):
    # Others are examined by `launch`: the content of a tensor of one integer is no address.
    kernel = bound("ptr<f32>")
    seen = []
    kernel._module.launch = lambda *arguments: seen.append(arguments)
    value = Element()
    kernel((1, 1, 1), (value,))
    assert seen == [("k", (1, 1, 1), (value,), 0)] and stand_in.log == []


def test_a_refused_launch_raises_and_its_buffer_is_reused(stand_in, bound):
    kernel = bound("i32")
    stand_in.reset("cuLaunchKernelEx", 209, has_context=True)
    for _ in range(2):
        with pytest.raises(DriverError, match="cuLaunchKernelEx: CUDA_ERROR_NO_BINARY_FOR_GPU") as error:
            kernel(1, (1,))
        assert error.value.code == 209
    assert len(kernel._slots) == 1
    with pytest.raises(ArgumentError, match="grid"):
        kernel(0, (1,))


def test_threads_do_not_share_parameters(bound):
    kernel = bound("i64", "i64")
    seen, wrong = [], []

    def launched(config, function, parameters, extra):
        address = ctypes.c_void_p.from_address(extra + 8).value
        before = ctypes.string_at(address, 16)
        time.sleep(0.0001)  # other threads run, as during a call of the driver
        one, other = struct.unpack("<qq", ctypes.string_at(address, 16))
        (seen if before[:8] == before[8:] and one == other else wrong).append(one)
        return 0

    kernel._launch = launched

    def run(first):
        for number in range(20):
            kernel((1, 1, 1), (first + number, first + number))

    threads = [threading.Thread(target=run, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(set(seen)) == 80
