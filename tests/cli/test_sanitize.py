"""`--sanitize=memcheck`: invalid accesses are reported with their place, valid ones give the same results."""

import numpy as np
import pytest

import tileiras
from tileiras import runtime, sim
from tileiras.cli.tileiras import main
from tileiras.targets.cpu import host

VIEW = "tensor_view<?xf32, strides=[1]>"
ACCESSES = f"""\
cuda_tile.module @m {{
  entry @partition(%p: tile<ptr<f32>>, %n: tile<i32>, %i: tile<i16>) {{
    %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> {VIEW}
    %w = make_partition_view %v : partition_view<tile=(8), padding_value = zero, {VIEW}>
    %t, %r = load_view_tko weak %w[%i] : partition_view<tile=(8), padding_value = zero, {VIEW}>, tile<i16> -> tile<8xf32>, token
    %r2 = store_view_tko weak %t, %w[%i] : tile<8xf32>, partition_view<tile=(8), padding_value = zero, {VIEW}>, tile<i16> -> token
    return
  }}
  entry @promised(%p: tile<ptr<f32>>, %n: tile<i32>, %i: tile<i16>) {{
    %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> {VIEW}
    %w = make_strided_view %v : strided_view<tile=(8), traversal_strides=[4], {VIEW}>
    %t, %r = load_view_tko weak %w[%i] inbounds = [true] : strided_view<tile=(8), traversal_strides=[4], {VIEW}>, tile<i16> -> tile<8xf32>, token
    return
  }}
  entry @gather(%p: tile<ptr<f32>>, %n: tile<i32>, %i: tile<i16>) {{
    %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> {VIEW}
    %w = make_gather_scatter_view %v : gather_scatter_view<tile=(8), {VIEW}, sparse_dim=0>
    %o = iota : tile<8xi16>
    %s = reshape %i : tile<i16> -> tile<1xi16>
    %b = broadcast %s : tile<1xi16> -> tile<8xi16>
    %x = addi %o, %b : tile<8xi16>
    %t, %r = load_view_tko weak %w[%x] inbounds = [true] : gather_scatter_view<tile=(8), {VIEW}, sparse_dim=0>, tile<8xi16> -> tile<8xf32>, token
    return
  }}
  entry @local(%p: tile<ptr<f32>>, %n: tile<i32>, %i: tile<i16>) {{
    %a = alloca num_elem = 20, alignment = 4 : tile<ptr<f32>>
    %q = offset %a, %i : tile<ptr<f32>>, tile<i16> -> tile<ptr<f32>>
    %c = constant <f32: 1.0> : tile<f32>
    %r = store_ptr_tko weak %q, %c : tile<ptr<f32>>, tile<f32> -> token
    return
  }}
}}
"""  # noqa: E501

LINES = {"partition": 5, "promised": 12, "gather": 22, "local": 29}


@pytest.fixture(scope="module")
def compiled() -> str:
    return tileiras.compile(ACCESSES, gpu_name="sm_90", sanitize="memcheck", source_name="k.mlir").text


CASES = [
    ("partition", 0, ""), ("partition", 2, ""),
    ("partition", 3, "load_view_tko names no tile of the view along dimension 0"),
    ("partition", -1, "load_view_tko names no tile of the view along dimension 0"),
    ("promised", 3, ""),
    ("promised", 4, "load_view_tko leaves the tensor along dimension 0, which 'inbounds' rules out"),
    ("promised", 5, "load_view_tko names no tile of the view along dimension 0"),
    ("gather", 12, ""),
    ("gather", 13, "load_view_tko leaves the tensor along dimension 0, which 'inbounds' rules out"),
    ("gather", -1, "load_view_tko leaves the tensor along dimension 0, which 'inbounds' rules out"),
    ("local", 19, ""),
    ("local", 20, "store_ptr_tko leaves the 80 bytes of the memory that its pointers are derived from"),
    ("local", -1, "store_ptr_tko leaves the 80 bytes of the memory that its pointers are derived from"),
]  # fmt: skip
"""Entry, index, and the message for it; arrays have 20 elements."""


@pytest.mark.parametrize("entry, index, problem", CASES)
@pytest.mark.in_process
def test_an_access_outside_is_reported_with_its_place(compiled, entry, index, problem):
    arguments = [np.arange(20, dtype=np.float32), np.int32(20), np.int16(index)]
    if not problem:
        sim.emulate(compiled, entry, (1, 1, 1), arguments)
        return
    with pytest.raises(sim.EmulationError, match=f"assertion failed: k.mlir:{LINES[entry]}:[0-9]+: {problem}"):
        sim.emulate(compiled, entry, (1, 1, 1), arguments)


WILD = [
    (entry, index, ".*") for entry, size in (("partition", 8), ("promised", 4), ("gather", 1), ("local", 1))
    for index in (-(1 << 15), (1 << 15) - 1, 1000) if not 0 <= index * size < 20
]  # fmt: skip
"""Indices that are far from every array, where an access would end the process."""


@pytest.mark.skipif(host() is None, reason="no target for this machine")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.in_process
def test_a_wild_access_on_the_cpu_is_a_failed_assertion(threads):
    """The process goes on, and the arrays are as they were."""
    artifact = tileiras.compile(ACCESSES, gpu_name="cpu", sanitize="memcheck", source_name="k.mlir")
    for entry, index, problem in [*CASES, *WILD]:
        array = np.arange(20, dtype=np.float32)
        arguments = [array, np.int32(20), np.int16(index)]
        if not problem:
            runtime.launch(artifact, entry, threads, arguments, threads=threads)
            continue
        place = f"k.mlir:{LINES[entry]}:[0-9]+"
        with pytest.raises(runtime.cpu.KernelFailure, match=f"assertion failed: {place}: {problem}"):
            runtime.launch(artifact, entry, threads, arguments, threads=threads)
        assert (array == np.arange(20)).all()


@pytest.mark.parametrize("entry, index", [("partition", 3), ("promised", 4), ("gather", -1)])
@pytest.mark.in_process
def test_the_interpreter_finds_the_same_accesses_wrong(entry, index):
    arguments = [np.arange(20, dtype=np.float32), np.int32(20), np.int16(index)]
    with pytest.raises(sim.InterpreterError, match="index space|rules out"):
        sim.interpret(ACCESSES, entry, (1, 1, 1), arguments)


@pytest.mark.in_process
def test_locations_are_part_of_sanitized_code():
    moved = tileiras.compile("\n" + ACCESSES, gpu_name="sm_90", sanitize="memcheck", source_name="k.mlir").text
    assert f"k.mlir:{LINES['partition'] + 1}:" in _strings(moved)
    plain = tileiras.compile(ACCESSES, gpu_name="sm_90", source_name="k.mlir").text
    assert "__assertfail" not in plain


def _strings(ptx: str) -> str:
    """The bytes of a module's arrays, as text."""
    import re

    arrays = re.findall(r"\{((?:\d+, )*\d+)\}", ptx)
    return "".join(chr(int(number)) for array in arrays for number in array.split(", "))


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_ptxas_adds_its_own_instrumentation(ptxas, tmp_path, gpu):
    (tmp_path / "k.mlir").write_text(ACCESSES)
    sizes = []
    for options in ([], ["--sanitize=memcheck"]):
        words = [str(tmp_path / "k.mlir"), "--gpu-name", gpu, "--entry", "local", "-o", str(tmp_path / "k"), *options]
        assert main(words) == 0
        sizes.append((tmp_path / "k").stat().st_size)
    assert sizes[1] > 2 * sizes[0]
