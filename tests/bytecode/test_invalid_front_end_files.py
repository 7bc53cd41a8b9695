"""Kernels for which cuTile Python writes bytecode that is not valid: refused in words that lead to the cause."""

import io
import linecache
import re

import pytest

ct = pytest.importorskip("cuda.tile")

from tileiras import bytecode  # noqa: E402
from tileiras.diagnostics import CompileError, ExitCode  # noqa: E402
from tileiras.ir import verify  # noqa: E402
from tileiras.stages.export.signatures import kernel_signature  # noqa: E402


@ct.kernel
def unsigned_floor_division(a, b):
    x = ct.load(a, index=(0,), shape=(16,))
    ct.store(b, index=(0,), tile=x // x)


@ct.kernel
def arrays_without_dimensions(a, b):
    ct.store(b, index=(), tile=ct.load(a, index=(), shape=()))


def refusal(kernel, name, *parameters):
    output = io.BytesIO()
    signature = kernel_signature(name, parameters)
    ct.compilation.export_kernel(
        kernel, [signature], output, gpu_code="sm_90", output_format="tileir_bytecode", bytecode_version="13.3"
    )
    with pytest.raises(CompileError) as caught:
        verify(bytecode.read_module(output.getvalue(), f"{name}.tileirbc"))
    assert caught.value.code == ExitCode.INVALID_INPUT
    (diagnostic,) = caught.value.diagnostics
    return str(diagnostic)


def test_unsigned_floor_division_is_refused_at_its_line():
    text = refusal(unsigned_floor_division, "unsigned_floor_division", "u32[?]", "u32[?]")
    place = re.match(rf"{re.escape(__file__)}:(\d+):\d+: error: 'cuda_tile.divi' op rounding mode", text)
    assert "x // x" in linecache.getline(__file__, int(place[1]))
    assert "'negative_inf' is not allowed with 'unsigned' flag" in text


def test_an_array_of_rank_0_is_refused_in_the_type_section():
    text = refusal(arrays_without_dimensions, "arrays_without_dimensions", "f32[]", "f32[]")
    assert re.search(r"offset \d+ in type section: error: 0-dimension tile shape is not supported", text)
