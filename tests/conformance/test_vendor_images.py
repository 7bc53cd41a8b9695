"""The reference compiler's cubins as images for the estimate: run by their PTX, joined with their machine code."""

from pathlib import Path

import numpy as np
import pytest
from vendor_ptx import vendor_compile

from bench.whole_process import vendor_tool
from tileiras.check.checker import check
from tileiras.codegen import toolkit
from tileiras.sim import emulate
from tileiras.sim.emulator.rules import RULES
from tileiras.sim.estimate import images
from tileiras.targets.rates import gpu

SOURCE = "examples/bytecode/matmul_f16.tileirbc"
ENTRY = "matmul_f16"


@pytest.mark.sampled(2)
@pytest.mark.skipif(toolkit.find_program("nvdisasm") is None, reason="no nvdisasm")
@pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler")
@pytest.mark.parametrize("name", ["A100", "H200", "B200", "RTX 5090"])
def test_the_reference_cubin_runs_and_matches_its_machine_code(name):
    on = gpu(name)
    source = Path(SOURCE).read_bytes()
    image = images.load(vendor_compile(source, on.target.name).cubin, ENTRY, on)
    text = image.ptx.split("\n")
    products = [each for each in image.code.instructions if each.opcode in ("HMMA", "HGMMA", "UTCHMMA")]
    assert products and all("mma" in text[each.ptx_line - 1] for each in products)
    assert image.shared == image.code.shared > 0
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (128, 128)).astype(np.float16) for _ in range(2))
    c = np.zeros((128, 128), np.float16)
    arguments = [value for array in (a, b, c) for value in (array, 128, 128, 128, 1)]
    emulate(image.ptx, ENTRY, (1, 1), arguments, image.metadata, hidden=image.hidden, waive=tuple(RULES))
    assert (c == (a.astype(np.float32) @ b).astype(np.float16)).all()


@pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler")
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["softmax", "vector_add", "layer_norm"])
def test_the_reference_compilers_cubin_is_judged_by_its_ptx(name, target, tmp_path):
    """Without a file beside it: the cubin contains the PTX and, on sm_90, the host code that encodes tensor maps."""
    source = Path(f"examples/bytecode/{name}.tileirbc").read_bytes()
    image = tmp_path / "theirs.cubin"
    image.write_bytes(vendor_compile(source, target).cubin)
    verdict = check(source, gpu_name=target, image=image, budget=2)
    assert verdict.status == "right" and not verdict.failures
    assert verdict.coverage["operations"][0] == verdict.coverage["operations"][1]
