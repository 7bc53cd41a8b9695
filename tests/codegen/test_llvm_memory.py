"""LLVM's process does not grow with the number of compilations."""

import itertools
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench import llvm_memory  # noqa: E402
from bench.parallel import kernels  # noqa: E402
from tileiras import api  # noqa: E402
from tileiras.codegen import llvm_pipeline  # noqa: E402
from tileiras.codegen.target_machine import processor  # noqa: E402
from tileiras.processes import helper  # noqa: E402
from tileiras.targets.nvptx import MODULE_HEADER  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not tell")


@pytest.fixture
def modules():
    """LLVM IR of four kernels, one a matrix product with loops."""
    helper.stop()
    yield [api.compile(text, gpu_name="sm_90", emit="llvm").text for text in kernels(4).values()]
    helper.stop()


def compilations(modules, count):
    for text in itertools.islice(itertools.cycle(modules), count):
        yield lambda: llvm_pipeline.compile_to_ptx(text, processor("sm_90"))


def test_300_compilations_stay_within_5_mb_of_the_first_100(modules):
    growth = llvm_memory.growth(compilations(modules, 300))
    assert growth.above <= llvm_memory.BAR, growth
    assert growth.processes == -(-300 // helper.MAX_REQUESTS)


def test_passes_are_freed_with_their_compilation(modules, monkeypatch):
    """The growth is memory that llvmlite cannot free; unfreed tables of passes added up to 70 KB per module."""
    monkeypatch.setattr(helper, "MAX_REQUESTS", sys.maxsize)
    growth = llvm_memory.growth(compilations(modules, 140), settled=60)
    assert growth.processes == 1
    assert growth.last - growth.settled < 80 * 0.065, growth


def test_a_process_that_has_grown_is_replaced(monkeypatch):
    items = []
    monkeypatch.setitem(helper._functions(), "keep", lambda size: items.append(b"x" * size))
    helper.stop()
    pids = []
    for size in (1, helper.MAX_GROWTH // 2, helper.MAX_GROWTH, 1, 1):
        helper.call("keep", size=size)
        pids.append(helper.helper_pid())
    assert pids[0] == pids[1] == pids[2] != pids[3] == pids[4]
    helper.stop()


def test_a_process_that_watches_over_a_program_is_kept(monkeypatch):
    monkeypatch.setattr(helper, "MAX_REQUESTS", 1)
    text = f"{MODULE_HEADER}define ptx_kernel void @k() {{\n  ret void\n}}\n"
    llvm_pipeline.verify_module(text)
    first = helper.helper_pid()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        with helper.watching(program.pid):
            llvm_pipeline.verify_module(text)
            assert helper.helper_pid() == first
        program.communicate(b"\n")
    llvm_pipeline.verify_module(text)
    assert helper.helper_pid() != first
    helper.stop()
