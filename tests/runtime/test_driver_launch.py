"""The call protocol of a launch, against a stand-in for the driver.  Nothing here runs a kernel."""

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from described import PTX, description, parameters

import tileiras
from tileiras.codegen import toolkit
from tileiras.runtime import ArgumentError, DriverError, available, bind, launch
from tileiras.runtime import driver as driver_module
from tileiras.runtime.arguments import scalar_bytes


def test_order_of_the_calls_of_one_launch(stand_in):
    data = np.zeros(16, np.float32)
    launch(PTX, "k", (2, 3), [data, 7], metadata=description("ptr<f32>", "i32"))
    assert [line.split(" ")[0] for line in stand_in.log] == [
        "init", "retain", "push", "load", "allocate", "to", "function", "launch", "parameters", "synchronize", "to",
        "pop",
    ]  # fmt: skip
    assert "launch grid 2 3 1 block 128 1 1 shared 0 stream 0" in stand_in.log
    assert data.view(np.uint8)[0] == 1, "what the kernel wrote has come back"
    assert struct.unpack("<i", parameters(stand_in)[8:])[0] == 7 and len(parameters(stand_in)) == 12


def test_modules_are_loaded_once_and_found_again(stand_in):
    for _ in range(2):
        launch(b"\x7fELF...", "k", 1, [5], metadata=description("i32"))
    assert stand_in.log.count("load cubin") == stand_in.log.count("function k") == 1
    assert stand_in.log.count("retain 0") == 1


def test_a_fat_binary_is_launched_as_the_device_needs(stand_in):
    fat = b"\x50\xed\x55\xba..."
    images = [("cubin", "sm_86", 64), ("cubin", "sm_90", 96), ("ptx", "sm_80", 32), ("cubin", "sm_80", 160)]
    described = {"images": [
        {"form": form, **description("i32", block=[size, 1, 1]), "target": target} for form, target, size in images
    ]}  # fmt: skip
    launch(fat, "k", 1, [5], metadata=described)
    assert stand_in.log.count("load fatbin") == 1
    assert "launch grid 1 1 1 block 64 1 1 shared 0 stream 0" in stand_in.log
    bind(fat, "k", metadata={"images": described["images"][2:3]})
    with pytest.raises(DriverError, match="no image for a device of sm_89, only sm_90"):
        launch(fat + b"2", "k", 1, [5], metadata={"images": described["images"][1:2]})
    with pytest.raises(ArgumentError, match="NAME.fatbin.json"):
        launch(fat + b"3", "k", 1, [5])


@pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")
def test_a_compiled_fat_binary_is_launched(stand_in):
    text = "cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) { return } }"
    warps = {"num_warps": 2}
    artifact = tileiras.compile(text, gpu_name="sm_90,sm_80", emit="fatbin", opt_level=1, **warps)
    data = np.zeros(16, np.float32)
    launch(artifact, "k", 2, [data])
    assert stand_in.log.count("load fatbin") == 1
    (kernel,) = tileiras.compile(text, gpu_name="sm_80", emit="ptx", opt_level=1, **warps).kernels
    block = " ".join(map(str, kernel.metadata["block"]))
    assert f"launch grid 2 1 1 block {block} shared 0 stream 0" in stand_in.log


def test_kernels_of_one_image_may_be_described_one_by_one(stand_in):
    other = description("i32")
    other["kernels"][0]["name"] = "other"
    launch(PTX, "k", 1, [5], metadata=description("i32"))
    launch(PTX, "other", 1, [5], metadata=other)
    assert stand_in.log.count("load ptx") == 1 and "function other" in stand_in.log


def test_current_context_is_kept(stand_in):
    stand_in.reset(has_context=True)
    launch(PTX, "k", 1, [5], metadata=description("i32"))
    assert "push" not in stand_in.log and "retain 0" not in stand_in.log


def test_clusters_and_large_shared_memory_are_asked_for(stand_in):
    launch(PTX, "k", (4, 2), [1], metadata=description("i32", cluster=[2, 1, 1], shared_memory=100_000))
    assert "attribute 8 = 100000" in stand_in.log
    assert "launch grid 8 2 1 block 128 1 1 shared 100000 stream 0 attribute 4: 2 1 1" in stand_in.log
    launch(PTX + "//", "k", 3, [1], metadata=description("i32", cluster=[16, 1, 1]))
    assert "attribute 14 = 1" in stand_in.log


def test_grid_counts_clusters_where_the_kernel_says_so(stand_in):
    launch(PTX, "k", 4, [1], metadata=description("i32", cluster=[2, 1, 1], blocks_are_clusters=True))
    assert "launch grid 4 1 1 block 128 1 1 shared 0 stream 0" in stand_in.log


def test_ctas_with_multicast_are_clusters_if_the_grid_divides(stand_in):
    neighbours = description("i32", cluster_blocks=[2, 1, 1])
    launch(PTX, "k", (4, 3), [1], metadata=neighbours)
    assert "launch grid 4 3 1 block 128 1 1 shared 0 stream 0 attribute 4: 2 1 1" in stand_in.log
    launch(PTX, "k", (3, 2), [1], metadata=neighbours)
    assert "launch grid 3 2 1 block 128 1 1 shared 0 stream 0" in stand_in.log


def test_a_grid_of_pairs_starts_the_kernel_for_pairs(stand_in):
    hidden = [{"name": "m", "type": "b8", "offset": 64, "size": 128,
               "fill": "tensor_map element=f32 address=p0 dims=64 box=32"}]  # fmt: skip
    pairs = {"name": "k$pairs", "hidden_parameters": hidden, "block": [160, 1, 1], "shared_memory": 50_000,
             "cluster_blocks": [2, 1, 1]}  # fmt: skip
    described = description("ptr<f32>", pairs=pairs)
    for grid in ((4, 3), (3, 4), (2, 1)):
        launch(PTX, "k", grid, [np.zeros(64, np.float32)], metadata=described)
    assert [line for line in stand_in.log if line.startswith(("function", "launch", "attribute"))] == [
        "function k$pairs", "attribute 8 = 50000",
        "launch grid 4 3 1 block 160 1 1 shared 50000 stream 0 attribute 4: 2 1 1",
        "function k", "launch grid 3 4 1 block 128 1 1 shared 0 stream 0",
        "launch grid 2 1 1 block 160 1 1 shared 50000 stream 0 attribute 4: 2 1 1",
    ]  # fmt: skip
    assert stand_in.log.count("load ptx") == 1
    sizes = [len(line.split()) - 1 for line in stand_in.log if line.startswith("parameters")]
    assert sizes == [192, 8, 192], "each has its own hidden parameters"


def test_arguments_decide_whether_the_pair_kernel_starts(stand_in):
    pairs = {"name": "k$pairs", "hidden_parameters": [], "block": [160, 1, 1], "shared_memory": 0,
             "cluster_blocks": [2, 1, 1], "where": ["p2 64 ceildiv even", "p1 grid below sub positive"]}  # fmt: skip
    described = description("ptr<f32>", "i64", "i32", pairs=pairs)
    data = np.zeros(64, np.float32)
    for numbers in ((4, 128), (4, np.int32(65)), (4, 64), (3, 128), (4, -128), (4, 2**31 + 128), (2**40, 128)):
        launch(PTX, "k", 4, [data, *numbers], metadata=described)
    threads = [line.split()[6] for line in stand_in.log if line.startswith("launch grid")]
    assert threads == ["160", "160", *["128"] * 5]
    with pytest.raises(ArgumentError, match="argument 2"):
        launch(PTX, "k", 4, [data, 4, "two"], metadata=described)


def test_tile_launch_has_one_thread_for_a_tile_block(stand_in):
    launch(PTX, "k", 4, [1], metadata=description("i32", shared_memory=70_000, tile_launch=True))
    assert "launch grid 4 1 1 block 1 1 1 shared 0 stream 0" in stand_in.log


def test_a_driver_that_knows_no_tile_launch_is_not_given_one(stand_in, monkeypatch):
    monkeypatch.setattr(driver_module.Driver, "version", lambda self: (12, 9))
    with pytest.raises(DriverError, match="a tile launch needs a driver of CUDA 13.0 or newer"):
        launch(PTX, "k", 4, [1], metadata=description("i32", tile_launch=True))
    assert not any(line.startswith("launch") for line in stand_in.log)


def test_views_of_one_array_share_an_allocation(stand_in):
    base = np.arange(100, dtype=np.float32)
    launch(PTX, "k", 1, [base[10:20], base[::-2]], metadata=description("ptr<f32>", "ptr<f32>"))
    first, second = struct.unpack("<QQ", parameters(stand_in))
    assert [line for line in stand_in.log if line.startswith("allocate")] == ["allocate 400"]
    assert second - first == (99 - 10) * 4
    assert base.view(np.uint8)[40] == 1


def test_copies_have_arrived_before_a_launch_on_another_stream(stand_in):
    launch(PTX, "k", 1, [np.zeros(4)], stream=9, metadata=description("ptr<f64>"))
    calls = [line.split(" grid")[0] for line in stand_in.log if line.startswith(("to ", "synchronize", "launch"))]
    assert calls == ["to device 32", "synchronize 0", "launch", "synchronize 9", "to host 32"]


def test_read_only_arrays_are_not_written_back(stand_in):
    data = np.zeros(4, np.int32)
    data.flags.writeable = False
    launch(PTX, "k", 1, [data], metadata=description("ptr<i32>"))
    assert not any(line.startswith("to host") for line in stand_in.log)


def test_buffers_and_empty_arrays(stand_in):
    data, scalar = bytearray(8), np.array(5)
    kernel = description("ptr<i8>", "ptr<f32>", "ptr<i64>")
    launch(PTX, "k", 1, [data, np.zeros(0, np.float32), scalar], metadata=kernel)
    assert data[0] == 1 and "allocate 1" in stand_in.log and stand_in.log.count("allocate 8") == 2


def test_views_of_one_buffer_point_into_one_allocation(stand_in):
    whole = bytearray(range(16))
    first, second = memoryview(whole)[4:], memoryview(whole)[8:12]
    launch(PTX, "k", 1, [second, first], metadata=description("ptr<i8>", "ptr<i8>"))
    low, high = sorted(struct.unpack("<QQ", parameters(stand_in)))
    assert high - low == 4 and stand_in.log.count("allocate 16") == 1
    assert list(whole) == [*range(8), 9, *range(9, 16)]


class OnDevice:
    """Memory of the stand-in's device, which is the host's."""

    def __init__(self, stream=None):
        self.memory = (ctypes.c_ubyte * 16)()
        self.address = ctypes.addressof(self.memory)
        self.__cuda_array_interface__ = {
            "data": (self.address, False), "shape": (4,), "typestr": "<f4", "version": 3, "stream": stream,
        }  # fmt: skip


def test_device_memory_is_passed_as_it_is_without_waiting(stand_in):
    array = OnDevice()
    launch(PTX, "k", 1, [array], stream=77, metadata=description("ptr<f32>"))
    assert struct.unpack("<Q", parameters(stand_in))[0] == array.address and array.memory[0] == 1
    assert not any(line.startswith(("synchronize", "allocate")) for line in stand_in.log)
    assert any(line.endswith("stream 77") for line in stand_in.log)


def test_producers_on_another_stream_are_waited_for(stand_in):
    launch(PTX, "k", 1, [OnDevice(stream=5)], stream=77, metadata=description("ptr<f32>"))
    assert "synchronize 5" in stand_in.log


class Tensor:
    """DLPack of CUDA memory: the capsule of a NumPy array with another device written over it."""

    def __init__(self):
        self.array = np.zeros(8, np.float32)
        self.streams = []

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array[2:].__dlpack__()


def test_dlpack(stand_in):
    tensor = Tensor()
    launch(PTX, "k", 1, [tensor], metadata=description("ptr<f32>"))
    assert struct.unpack("<Q", parameters(stand_in))[0] == tensor.array.ctypes.data + 8
    assert tensor.streams == [1] and tensor.array.view(np.uint8)[8] == 1


class Counter(Tensor):
    """A tensor of one integer, which can also be used as a number."""

    def __index__(self):
        return 0


class HostCounter(Counter):
    def __dlpack_device__(self):
        return (1, 0)

    def numpy(self):
        return self.array[2:3]


def test_a_tensor_of_one_integer_is_memory_not_an_address(stand_in):
    launch(PTX, "k", 1, [Counter()], metadata=description("ptr<i32>"))
    assert struct.unpack("<Q", parameters(stand_in))[0] != 0
    stand_in.reset()
    launch(PTX, "k", 1, [HostCounter()], metadata=description("ptr<i32>"))
    assert struct.unpack("<Q", parameters(stand_in))[0] != 0 and stand_in.log.count("allocate 32") == 1


class Unexportable(Tensor):
    def __dlpack__(self, stream=None):
        raise BufferError("Can't export tensors that require gradient")


class Interface:
    def __init__(self, **changes):
        self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "version": 3, **changes}


@pytest.mark.parametrize(
    "value, message",
    [
        (Unexportable(), "memory of a Unexportable is not to be had: Can't export tensors that require gradient"),
        (Interface(), "a __cuda_array_interface__ without the address of its data"),
        (Interface(data=None), "a __cuda_array_interface__ without the address of its data"),
        (Interface(data=(4096, False), mask=Interface()), "a masked array has no memory that a kernel could use alone"),
        (-1, "-1 is no address"),
        (1 << 64, "18446744073709551616 is no address"),
        (np.float32(1), "a pointer is wanted: .*, not float32"),
    ],
)
def test_an_invalid_memory_is_named(stand_in, value, message):
    with pytest.raises(ArgumentError, match=rf"argument 0 \('p0'\) of kernel 'k': {message}"):
        launch(PTX, "k", 1, [value], metadata=description("ptr<f32>"))


def test_stream_objects(stand_in):
    class Protocol:
        def __cuda_stream__(self):
            return (0, 11)

    class Torch:
        cuda_stream = 12

    for stream in (Protocol(), Torch(), 13):
        launch(PTX, "k", 1, [1], stream=stream, metadata=description("i32"))
    streams = [line.rsplit(" ", 1)[1] for line in stand_in.log if line.startswith("launch")]
    assert streams == ["11", "12", "13"]
    with pytest.raises(ArgumentError, match="a stream is wanted, not str"):
        launch(PTX, "k", 1, [1], stream="default", metadata=description("i32"))


def test_sizes_of_a_grid_may_be_numpys(stand_in):
    for grid in (np.int64(3), [np.int32(3), 1]):
        launch(PTX, "k", grid, [1], metadata=description("i32"))
    assert sum(line.startswith("launch grid 3 1 1 ") for line in stand_in.log) == 2


@pytest.mark.parametrize(
    "type, value, expected",
    [
        ("i1", True, b"\1"), ("i8", -1, b"\xff"), ("i8", 255, b"\xff"), ("i32", np.int64(-2), b"\xfe\xff\xff\xff"),
        ("f16", 1.5, b"\x00\x3e"), ("f32", np.float32(1), b"\0\0\x80\x3f"), ("f64", 1, struct.pack("<d", 1)),
        ("bf16", 1.00390625, b"\x80\x3f"), ("bf16", 1.01171875, b"\x82\x3f"), ("bf16", float("nan"), b"\xc0\x7f"),
        ("bf16", ml_dtypes.bfloat16(2), b"\0\x40"), ("b32", 1.0, b"\0\0\x80\x3f"), ("u64", 2**64 - 1, b"\xff" * 8),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn(1), b"\x38"), ("f8E5M2", 0x3C, b"\x3c"),
    ],
)  # fmt: skip
def test_scalars(type, value, expected):
    assert scalar_bytes(value, type, len(expected)) == expected


@pytest.mark.parametrize("type, size, value", [("i8", 1, 256), ("i32", 4, 1.5), ("f32", 4, "x"), ("i1", 1, 2)])
def test_scalars_that_do_not_fit(type, size, value):
    with pytest.raises(ArgumentError, match=f"{type}"):
        scalar_bytes(value, type, size)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([1], r"kernel 'k' takes 2 arguments, got 1"),
        ([np.zeros(1), np.zeros(1)], r"argument 1 \('p1'\) of kernel 'k': a number of type i32 is wanted"),
        ([1.5, 1], r"argument 0 \('p0'\) of kernel 'k': a pointer is wanted"),
    ],
)
def test_wrong_arguments_are_named(stand_in, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        launch(PTX, "k", 1, arguments, metadata=description("ptr<f32>", "i32"))


@pytest.mark.parametrize(
    "call", ["cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuLaunchKernelEx",
             "cuStreamSynchronize", "cuMemcpyDtoH_v2", "cuFuncSetAttribute"],
)  # fmt: skip
def test_refused_calls_are_errors_in_the_drivers_words(stand_in, call):
    available()
    stand_in.reset(fail=call, code=209)
    with pytest.raises(DriverError) as error:
        launch(PTX, "k", 1, [np.zeros(4)], metadata=description("ptr<f64>", shared_memory=50_000))
    assert error.value.code == 209
    assert str(error.value).startswith(
        f"{call}: CUDA_ERROR_NO_BINARY_FOR_GPU (209): no kernel image is available for execution on the device"
    )
    if call == "cuModuleLoadDataEx":
        text = "\nptxas: what is wrong with it\n(the device is sm_89, the driver of CUDA 13.0)"
        assert str(error.value).endswith(text)
    assert stand_in.log[-1] == "pop", "the context is given back"


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(driver_module, "LIBRARIES", ("libcuda_that_is_not_there.so",))
    monkeypatch.setattr(driver_module, "_loaded", None)


def test_no_driver_is_said_plainly(no_driver):
    assert not available()
    with pytest.raises(DriverError, match=r"no CUDA driver here \(libcuda_that_is_not_there.so cannot be loaded"):
        launch(PTX, "k", 1, [np.zeros(4, np.float32), 7], metadata=description("ptr<f32>", "i32"))


@pytest.mark.parametrize(
    "entry, grid, arguments, message",
    [
        ("other", 1, [0, 7], "no kernel 'other' in the image; it has: k"),
        ("k", (1, 0), [0, 7], r"a grid has one to three positive sizes, not \(1, 0\)"),
        ("k", "3", [0, 7], "a grid has one to three positive sizes, not '3'"),
        ("k", 1.5, [0, 7], "a grid has one to three positive sizes, not 1.5"),
        ("k", 1, [0], "kernel 'k' takes 2 arguments, got 1"),
        ("k", 1, [1.5, 7], r"argument 0 \('p0'\) of kernel 'k': a pointer is wanted"),
        ("k", 1, [np.zeros(4, np.float32), 1 << 40], r"argument 1 \('p1'\) of kernel 'k': 1099511627776 does not fit"),
    ],
)
def test_wrong_arguments_are_reported_where_no_driver_is(no_driver, entry, grid, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        launch(PTX, entry, grid, arguments, metadata=description("ptr<f32>", "i32"))


def test_artifacts_and_bare_ptx_describe_themselves(stand_in):
    artifact = tileiras.compile("examples/saxpy.mlir", gpu_name="sm_80")
    x, y = np.ones(3000, np.float32), np.ones(3000, np.float32)
    launch(artifact, "saxpy", 3, [x, y, np.float32(2), 3000])
    launch(artifact.text + "\n", "saxpy", 3, [x, y, 2.0, 3000])
    block = artifact.kernels[0].metadata["block"][0]
    assert sum(f"launch grid 3 1 1 block {block} 1 1" in line for line in stand_in.log) == 2
    with pytest.raises(ArgumentError, match="no kernel 'k' in the image; it has: saxpy"):
        launch(artifact, "k", 1, [])
    with pytest.raises(ArgumentError, match="needs metadata="):
        launch(b"\x7fELF", "k", 1, [])


MAP = {"name": "map", "type": "b8[128]", "offset": 64, "size": 128,
       "fill": "tensor_map element=f16 address=p0 dims=p2,p1 strides=p2 box=64,32 swizzle=64"}  # fmt: skip


def test_hidden_tensor_maps_are_made_of_the_other_arguments(stand_in):
    data = np.zeros((6, 200), np.float16)
    launch(PTX, "k", (1,), [data, 6, 200], metadata=description("ptr<f16>", "i32", "i32", hidden_parameters=[MAP]))
    line = "tensor map type 6 dims 200 6 strides 400 box 64/1 32/1 interleave 0 swizzle 2 l2 0 oob 0"
    assert line in stand_in.log
    packed = parameters(stand_in)
    assert packed[8:16] == struct.pack("<ii", 6, 200) and packed[64:] == b"\x5a" * 128


@pytest.mark.parametrize("rows, stride", [(1, 208), (2, 202)])
def test_the_stride_of_a_single_row_is_rounded_up(stand_in, rows, stride):
    data = np.zeros((rows, 101), np.float16)
    launch(PTX, "k", (1,), [data, rows, 101], metadata=description("ptr<f16>", "i32", "i32", hidden_parameters=[MAP]))
    assert any(f"dims 101 {rows} strides {stride} box" in line for line in stand_in.log)


def test_hidden_parameters_of_another_kind_are_refused(stand_in):
    for fill in ("the weather", MAP["fill"].replace("dims=p2", "dims=p7")):
        metadata = description("ptr<f16>", "i32", "i32", hidden_parameters=[{**MAP, "fill": fill}])
        with pytest.raises(ArgumentError, match="hidden parameter that this launcher cannot fill"):
            launch(f"{PTX}// {fill}\n", "k", (1,), [np.zeros(16, np.float16), 1, 16], metadata=metadata)
    stand_in.reset(fail="cuTensorMapEncodeTiled", code=1)
    with pytest.raises(DriverError, match="cuTensorMapEncodeTiled: "):
        metadata = description("ptr<f16>", "i32", "i32", hidden_parameters=[MAP])
        launch(PTX, "k", (1,), [np.zeros(16, np.float16), 1, 16], metadata=metadata)


HEADER_PROGRAM = r"""
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>
int main(void) {
    printf("%zu %zu %zu %zu %zu %zu %zu ", sizeof(CUlaunchConfig), offsetof(CUlaunchConfig, gridDimX),
           offsetof(CUlaunchConfig, blockDimX), offsetof(CUlaunchConfig, sharedMemBytes),
           offsetof(CUlaunchConfig, hStream), offsetof(CUlaunchConfig, attrs), offsetof(CUlaunchConfig, numAttrs));
    printf("%zu %zu %zu %d ", sizeof(CUlaunchAttribute), offsetof(CUlaunchAttribute, id),
           offsetof(CUlaunchAttribute, value.clusterDim.x), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    printf("%d %d %d %d ", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
           CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, CU_JIT_ERROR_LOG_BUFFER,
           CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    printf("%d %d ", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    printf("%zu %zu %zu ", (size_t)CU_LAUNCH_PARAM_END, (size_t)CU_LAUNCH_PARAM_BUFFER_POINTER,
           (size_t)CU_LAUNCH_PARAM_BUFFER_SIZE);
    printf("%d %d %zu\n", CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NO_DEVICE, sizeof(CUtensorMap));
    return 0;
}
"""


def test_numbers_and_structures_are_those_of_the_header(tmp_path):
    compiler, assembler = shutil.which("cc"), toolkit.find_program("ptxas")
    places = [Path(assembler).parents[1]] if assembler is not None else []
    headers = [place / "include" for place in (*places, Path("/usr/local/cuda"))]
    include = next((folder for folder in headers if (folder / "cuda.h").is_file()), None)
    if compiler is None or include is None:
        pytest.skip("no C compiler or no cuda.h")
    source, program = tmp_path / "numbers.c", tmp_path / "numbers"
    source.write_text(HEADER_PROGRAM)
    subprocess.run([compiler, f"-I{include}", source, "-o", program], check=True)
    stdout = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    driver = driver_module
    config, attribute = driver.LaunchConfig, driver.LaunchAttribute
    names = ("grid", "block", "shared_memory", "stream", "attributes", "attribute_count")
    assert list(map(int, stdout.split())) == [
        ctypes.sizeof(config), *(getattr(config, name).offset for name in names),
        ctypes.sizeof(attribute), attribute.id.offset, attribute.value.offset,
        driver.LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, driver.MAX_DYNAMIC_SHARED_SIZE_BYTES,
        driver.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, driver.JIT_ERROR_LOG_BUFFER, driver.JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        driver.COMPUTE_CAPABILITY_MAJOR, driver.COMPUTE_CAPABILITY_MINOR, driver.LAUNCH_PARAM_END,
        driver.LAUNCH_PARAM_BUFFER_POINTER, driver.LAUNCH_PARAM_BUFFER_SIZE, driver.NOT_INITIALIZED, driver.NO_DEVICE,
        driver.TENSOR_MAP_SIZE,
    ]  # fmt: skip
