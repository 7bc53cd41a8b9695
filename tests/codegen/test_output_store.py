"""Outputs of ptxas and nvdisasm are reused by later processes, for the same program and the same input only."""

from pathlib import Path

import pytest

import tileiras
from tests.machine_code import needs_tools
from tileiras.build.store.local import REFRESH, VERIFY, ArtifactStore
from tileiras.codegen import nvdisasm, output_store
from tileiras.codegen.machine_code import listing, read
from tileiras.diagnostics import CompileError
from tileiras.sim.estimate import images

pytestmark = needs_tools

ADDS = """
.version 8.8
.target sm_80
.address_size 64
.visible .entry adds(.param .u64 p)
{
    .reg .f32 %f<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [p];
    ld.global.f32 %f0, [%rd0];
    add.f32 %f0, %f0, %f0;
    st.global.f32 [%rd0], %f0;
    ret;
}
"""


@pytest.fixture
def new_process(tmp_path, monkeypatch):
    """A function: the state of a process that has just started, with a store that lasts."""

    def start():
        store = ArtifactStore(str(tmp_path / "store"), pytest.fail)
        monkeypatch.setattr(output_store, "provider", lambda: store)
        listing._listing.cache_clear()

    start()
    return start


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """nvdisasm behind a script, and the script; each run adds a line to the first file."""
    log, script = tmp_path / "runs", tmp_path / "nvdisasm"
    log.write_text("")
    program = nvdisasm.find()
    script.write_text(f'#!/bin/sh\necho run >> {log}\nexec {program} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(nvdisasm, "find", lambda *_: str(script))
    return log, script


def cubin(text: str = ADDS) -> bytes:
    return images.assemble(text, "sm_80")


def count(log: Path) -> int:
    return len(log.read_text().split())


def test_a_later_process_reuses_a_listing(new_process, runs):
    log, _ = runs
    first = read(cubin(), "adds")
    assert count(log) == 1
    new_process()
    assert read(cubin(), "adds") == first
    assert count(log) == 1


def test_another_cubin_is_disassembled(new_process, runs):
    log, _ = runs
    read(cubin(), "adds")
    changed = cubin(ADDS.replace("add.f32", "mul.f32"))
    assert changed != cubin()
    new_process()
    assert "FMUL" in {each.opcode for each in read(changed, "adds").instructions}
    assert count(log) == 2


def test_a_replaced_program_runs_again(new_process, runs):
    log, script = runs
    read(cubin(), "adds")
    script.write_text(script.read_text() + "# of another release\n")
    new_process()
    read(cubin(), "adds")
    assert count(log) == 2


def test_a_later_process_reuses_a_cubin(new_process, monkeypatch):
    first = cubin()
    new_process()
    monkeypatch.setattr(images.ptxas, "assemble", lambda *_, **__: pytest.fail("ptxas runs again"))
    assert cubin() == first
    with pytest.raises(pytest.fail.Exception):
        images.assemble(ADDS, "sm_80", level=1)


def test_errors_are_not_stored(new_process, tmp_path):
    program = tmp_path / "tool"
    program.write_text("")

    def fail() -> bytes:
        raise CompileError.at(None, "no")

    with pytest.raises(CompileError):
        output_store.output(str(program), ["-a"], b"input", fail)
    assert output_store.output(str(program), ["-a"], b"input", lambda: b"output") == b"output"
    assert output_store.output(str(program), ["-a"], b"input", fail) == b"output"
    assert output_store.output(str(program), ["-b"], b"input", lambda: b"other") == b"other"
    assert output_store.output(str(program), ["-a"], b"other input", lambda: b"third") == b"third"


@pytest.mark.parametrize("mode", [REFRESH, VERIFY])
def test_modes_that_run_everything_run_tools(mode, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path))
    assert tileiras.build.library.tool_outputs().directory == str(tmp_path)
    monkeypatch.setenv("TILEIRAS_CACHE_MODE", mode)
    assert tileiras.build.library.tool_outputs() is None
