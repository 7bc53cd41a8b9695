"""Generated operators: on the CPU their results, on a GPU the launches that the stand-in for the driver receives."""

import importlib.util
import struct
import sys

import numpy as np
import pytest
import stand_in_torch
from stand_in_torch import Tensor

from tileiras.cli import verbs

SAXPY = """
namespace = "shop"
source = "saxpy.mlir"
gpus = ["cpu", "sm_80", "sm_90"]

[operator.saxpy]
parameters = ["x: f32[n]", "y: f32[n]", "a: float"]
mutates = ["y"]
grid = ["ceildiv(n, 1024)"]
arguments = ["x", "y", "a", "n"]

[operator.scaled_sum]
kernel = "saxpy"
parameters = ["x: f32[n, 4]", "a: float", "k: int"]
results = ["r: f32[n * 4, max(1, 1)]"]
grid = ["ceildiv(x.numel(), 1024)", "k"]
arguments = ["x", "r", "a", "n * 4"]
"""

CUTILE = """
namespace = "shop"
source = "vector_add.py"
gpus = ["sm_90"]
emit = "EMIT"

[operator.vector_add]
parameters = ["a: f32[n]", "b: f32[n]"]
results = ["c: f32[n]"]
grid = ["ceildiv(n, 1024)"]
"""


def generated(tmp_path, monkeypatch, text, torch, name="ops"):
    """The module that the command generates, imported with the stand-in for torch."""
    from pathlib import Path

    examples = Path(__file__).resolve().parents[2] / "examples"
    (tmp_path / "ops.toml").write_text(text.replace('source = "', f'source = "{examples}/'))
    assert verbs.run(["operators", str(tmp_path / "ops.toml"), "-o", str(tmp_path / "ops.py")]) == 0
    monkeypatch.setitem(sys.modules, "torch", torch)
    spec = importlib.util.spec_from_file_location(name, tmp_path / "ops.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def aligned(count, device, fill=0.0):
    tensor = Tensor(np.zeros(0, np.float32), device).new_empty((count,), "float32")
    tensor.array[:] = fill
    return tensor


def test_operators_run_on_the_cpu_and_are_launched_on_a_gpu(tmp_path, monkeypatch, stand_in):
    torch = stand_in_torch.module(capability=(9, 0), stream=77)
    module = generated(tmp_path, monkeypatch, SAXPY, torch)
    assert torch.schemas == {
        "shop::saxpy": "saxpy(Tensor x, Tensor(a!) y, float a) -> ()",
        "shop::scaled_sum": "scaled_sum(Tensor x, float a, SymInt k) -> Tensor",
    }
    x, y = aligned(3000, "cpu"), aligned(3000, "cpu", 1.0)
    x.array[:] = np.arange(3000)
    assert module.saxpy(x, y, 2.0) is None
    assert np.array_equal(y.array, 2 * np.arange(3000, dtype=np.float32) + 1)
    x, y = aligned(3000, "cuda"), aligned(3000, "cuda")
    stand_in.reset(has_context=True)
    for n in (1, 2):
        module.saxpy(x, y, 0.5 * n)
    launches = [line for line in stand_in.log if line.startswith("launch")]
    assert len(launches) == 2 and stand_in.log.count("load ptx") == 1
    assert launches[0].startswith("launch grid 3 1 1") and launches[0].endswith("stream 77")
    packed = [line for line in stand_in.log if line.startswith("parameters")][1]
    assert bytes(int(word, 16) for word in packed.split()[1:]) == struct.pack(
        "<QQfi", x.data_ptr(), y.data_ptr(), 1.0, 3000
    )
    # Without elements nothing is launched.
    stand_in.reset(has_context=True)
    module.saxpy(aligned(0, "cuda"), aligned(0, "cuda"), 1.0)
    assert stand_in.log == []


def test_shapes_of_fake_tensors_are_those_of_results(tmp_path, monkeypatch):
    torch = stand_in_torch.module()
    module = generated(tmp_path, monkeypatch, SAXPY, torch)
    x = Tensor(np.zeros((6, 4), np.float32), "cuda", fake=True)
    result = module.scaled_sum(x, 1.0, 2)
    assert result.fake and result.array.shape == (24, 1) and result.device.type == "cuda"
    assert module.saxpy(*[Tensor(np.zeros(4, np.float32), "cuda", fake=True)] * 2, 1.0) is None


@pytest.mark.parametrize("tensors, message", [
    ((aligned(4, "cpu"), aligned(5, "cpu")), "dimension 0 of y is n"),
    ((aligned(4, "cpu"), aligned(4, "cuda")), "y is on the device of x"),
    ((Tensor(np.zeros((2, 2), np.float32), "cpu"), aligned(4, "cpu")), "x has 1 dimensions"),
    ((Tensor(np.zeros(4, np.int32), "cpu"), aligned(4, "cpu")), "x is of torch.float32"),
    ((Tensor(np.zeros(8, np.float32)[::2], "cpu"), aligned(4, "cpu")), "x is contiguous"),
])  # fmt: skip
@pytest.mark.parametrize("fake", [False, True])
def test_tensors_that_are_not_as_declared_are_refused(tmp_path, monkeypatch, tensors, message, fake):
    module = generated(tmp_path, monkeypatch, SAXPY, stand_in_torch.module())
    result = [Tensor(each.array, each.device.type, fake) for each in tensors]
    with pytest.raises(RuntimeError, match=f"saxpy: {message}"):
        module.saxpy(*result, 1.0)


def test_memory_that_is_not_aligned_is_refused(tmp_path, monkeypatch):
    module = generated(tmp_path, monkeypatch, SAXPY, stand_in_torch.module())
    x = aligned(8, "cpu")
    with pytest.raises(ValueError, match="multiple of 16 bytes"):
        module.saxpy(Tensor(x.array[1:], "cpu"), aligned(7, "cpu"), 1.0)


@pytest.mark.parametrize("capability, runs", [((7, 5), False), ((8, 0), True), ((12, 0), True)])
def test_a_device_gets_the_newest_image_that_runs_on_it(tmp_path, monkeypatch, stand_in, capability, runs):
    module = generated(tmp_path, monkeypatch, SAXPY, stand_in_torch.module(capability))
    stand_in.reset(has_context=True)
    if runs:
        module.saxpy(aligned(4, "cuda"), aligned(4, "cuda"), 1.0)
        assert "load ptx" in stand_in.log
    else:
        with pytest.raises(RuntimeError, match="no image for sm_75"):
            module.saxpy(aligned(4, "cuda"), aligned(4, "cuda"), 1.0)


@pytest.mark.parametrize("arch, emit, device, runs", [
    ("sm_90", "ptx", 120, True), ("sm_90a", "ptx", 90, True), ("sm_90a", "ptx", 100, False),
    ("sm_100f", "ptx", 103, True), ("sm_100f", "ptx", 120, False), ("sm_80", "cubin", 89, True),
    ("sm_80", "cubin", 90, False), ("sm_89", "cubin", 86, False),
])  # fmt: skip
def test_images_run_on_devices_as_the_driver_loads_them(tmp_path, monkeypatch, arch, emit, device, runs):
    from tileiras.operators import declaration, torch_source

    declared = declaration.read(SAXPY)._replace(emit=emit, operators=())
    monkeypatch.setitem(sys.modules, "torch", stand_in_torch.module())
    names: dict = {}
    exec(torch_source.module(declared, []), names)
    assert names["_runs"](arch, device) is runs


@pytest.mark.parametrize("emit", ["ptx", "cubin"])
def test_arguments_of_cutile_kernels_are_found_by_their_names(tmp_path, monkeypatch, stand_in, ptxas, emit):
    pytest.importorskip("cuda.tile")
    module = generated(tmp_path, monkeypatch, CUTILE.replace("EMIT", emit), stand_in_torch.module((9, 0)))
    a, b = aligned(2000, "cuda"), aligned(2000, "cuda")
    stand_in.reset(has_context=True)
    c = module.vector_add(a, b)
    packed = next(line for line in stand_in.log if line.startswith("parameters"))
    assert bytes(int(word, 16) for word in packed.split()[1:]) == struct.pack(
        "<QiiQiiQii", a.data_ptr(), 2000, 1, b.data_ptr(), 2000, 1, c.data_ptr(), 2000, 1
    )
    assert f"load {emit}" in stand_in.log
