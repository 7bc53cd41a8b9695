"""Tiles that are not in registers go to operations that take them there, and to no others."""

import pytest

from tests.agents.running import verify
from tests.kernels import agent_matmuls
from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.passes.tileir_verify_ops_analysis import VerifyOpsAnalysis

TEXT = agent_matmuls.warpgroup_matmul("cp_async", 2)
TILE = "tensor<64x16xf16, #sb>"


def check(text: str) -> None:
    PassManager([VerifyOpsAnalysis()], verify_each=False).run(parse_module(text), PassContext(None))


def test_dots_take_tiles_in_shared_memory_and_in_flight():
    check(TEXT)
    verify(TEXT)


def test_arithmetic_takes_tiles_in_registers():
    wrong = TEXT.replace("%f = nv_tileas.async.to_async", f"%z = nv_tileas.addf %y, %y : {TILE}\n%f = "
                         "nv_tileas.async.to_async")  # fmt: skip
    with pytest.raises(CompileError, match="'nv_tileas.addf' op takes tiles in registers, not one that is in shared"):
        check(wrong)


def test_a_tile_in_flight_is_waited_for_before_it_is_used():
    wrong = TEXT.replace("%d = nv_tileas.async.future_wait", "%e = nv_tileas.convert_layout %g : "
        "!nv_tileas.in_flight<tensor<64x16xf32, #sum>> -> tensor<64x16xf32, #sum>\n%d = nv_tileas.async.future_wait"
    )  # fmt: skip
    with pytest.raises(CompileError, match="in_flight"):
        check(wrong)
