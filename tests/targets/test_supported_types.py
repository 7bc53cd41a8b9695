"""Which element types a target takes: the reference compiler's refusals, and our way around them."""

import numpy as np
import pytest

import tileiras
from tileiras.diagnostics import CompileError
from tileiras.options import GPU_NAMES
from tileiras.sim import emulate

KERNEL = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<TYPE>>, %q: tile<ptr<f32>>) {
    %v, %t = load_ptr_tko weak %p : tile<ptr<TYPE>> -> tile<TYPE>, token
    %f = ftof %v : tile<TYPE> -> tile<f32>
    %s = store_ptr_tko weak %q, %f : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""

FIRST = {"f8E4M3FN": 89, "f8E5M2": 89, "f8E8M0FNU": 100, "bf16": 75, "tf32": 75}


@pytest.mark.parametrize("element", FIRST)
def test_types_before_their_first_target_are_refused(element):
    text = KERNEL.replace("TYPE", element)
    for gpu in GPU_NAMES:
        if int(gpu[3:]) >= FIRST[element]:
            tileiras.compile(text, gpu_name=gpu, emit="tileaa")
            continue
        with pytest.raises(CompileError) as error:
            tileiras.compile(text, gpu_name=gpu, emit="tileaa", source_name="k.mlir")
        assert error.value.code == 5
        assert error.value.diagnostics[0].render().startswith(
            f"k.mlir:3:14: error: Incompatibility with architecture '{gpu}': unsupported type '{element}'\n"
        )


def test_unused_parameters_need_no_type():
    text = KERNEL.replace("TYPE", "f8E4M3FN").split("    %v")[0] + "    return\n  }\n}\n"
    assert tileiras.compile(text, gpu_name="sm_75").text


@pytest.mark.parametrize("element, bits, value", [("f8E4M3FN", 0x7E, 448.0), ("f8E8M0FNU", 130, 8.0)])
def test_legalized_types_are_converted(element, bits, value):
    artifact = tileiras.compile(KERNEL.replace("TYPE", element), gpu_name="sm_75", legalize_types=True)
    out = np.zeros(1, np.float32)
    metadata = {"kernels": [artifact.kernels[0].metadata]}
    emulate(artifact.text, "k", 1, [np.array([bits], np.uint8), out], metadata=metadata)
    assert out[0] == value
