"""ptxas that starts while LLVM works, and reads its arguments from a pipe: same results, same messages."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tileiras import api
from tileiras.codegen import ptxas, toolkit
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.processes import helper, programs

HAS_WHEEL = any(os.path.exists(os.path.join(root, "bin", "ptxas")) for root in toolkit.wheel_roots())
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not HAS_WHEEL, reason="the program of a wheel is started ahead, on Linux"
)

PTX = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k() {\n  ret;\n}\n"
BROKEN = PTX.replace("ret;", "add.s32 %r1, %r2;")
KERNEL = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %c = constant <f32: 1.0> : tile<f32>
    %t = store_ptr_tko weak %p, %c : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""


@pytest.fixture
def waiting():
    result = ptxas.start()
    assert result is not None
    yield result
    result.close()
    assert not os.path.exists(result.folder)


def outcome(text: str, **how) -> object:
    """The cubin and all messages of ptxas, or the failure."""
    engine = DiagnosticEngine()
    try:
        return ptxas.assemble(text, "sm_80", engine=engine, **how), [d.message for d in engine.diagnostics]
    except CompileError as error:
        return error.code, error.render()


def gone(process: int) -> bool:
    """Whether a process has ended; a zombie counts, because its parent may not have waited for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until_gone(process: int) -> None:
    limit = time.monotonic() + 300
    while not gone(process):
        assert time.monotonic() < limit, "the program goes on"
        time.sleep(0.01)


@pytest.mark.parametrize("text", [PTX, BROKEN, "nothing of PTX"])
@pytest.mark.parametrize("options", [(), ("--generate-line-info",), ("--no-such-option",)])
def test_it_answers_as_one_that_is_started_with_its_arguments(waiting, text, options):
    process = waiting._child.pid
    assert outcome(text, waiting=waiting, options=options) == outcome(text, options=options)
    assert waiting._child is None and gone(process)


@pytest.mark.parametrize("odd", ["a b", "#a", '"a"', "a\\", "", "$HOME", "ä", "a\nb"])
def test_arguments_that_depend_on_files_go_to_another_process(waiting, odd):
    assert waiting.give(["-v", odd]) is None
    before = outcome(PTX, options=("--entry", odd))
    assert outcome(PTX, options=("--entry", odd), waiting=waiting) == before


def test_one_that_was_ended_is_started_again(waiting):
    os.kill(waiting._child.pid, signal.SIGKILL)
    until_gone(waiting._child.pid)
    assert outcome(PTX, waiting=waiting) == outcome(PTX)


def test_another_program_than_that_is_started_itself(waiting, tmp_path):
    other = tmp_path / "ptxas"
    other.write_text('#!/bin/sh\nprintf "\\177ELF" > kernel.cubin\necho "$1" >&2\n')
    other.chmod(0o755)
    result, _ = outcome(PTX, ptxas=str(other), waiting=waiting)
    assert result.messages == "-arch"


def test_only_a_wheels_program_waits(monkeypatch, tmp_path):
    other = tmp_path / "ptxas"
    other.write_text("#!/bin/sh\nexit 3\n")
    other.chmod(0o755)
    monkeypatch.setattr(toolkit, "find_program", lambda name, override=None: str(other))
    assert ptxas.start() is None


@pytest.fixture
def started(monkeypatch) -> list[programs.WaitingProgram]:
    """The programs that compilations start."""
    started_programs: list[programs.WaitingProgram] = []
    start = ptxas.start

    def noted():
        started_programs.append(start())
        return started_programs[-1]

    monkeypatch.setattr(ptxas, "start", noted)
    return started_programs


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("options", [{}, {"tile_launch": True}, {"lineinfo": True}, {"opt_level": 0}], ids=str)
def test_cubins_are_the_same_for_every_launch(started, monkeypatch, target, options):
    def cubin() -> bytes:
        return api.compile(KERNEL, emit="cubin", gpu_name=target, **options).data

    ahead = cubin()
    (program,) = started
    assert program._child is None
    monkeypatch.setattr(ptxas, "start", lambda: None)
    assert cubin() == ahead


@pytest.mark.parametrize("options", [
    {"device_debug": True, "opt_level": 0}, {"ptxas_options": ("--maxrregcount=32",)}, {"sanitize": "memcheck"},
    {"assembler": "nvjitlink"},
], ids=str)  # fmt: skip
def test_variable_programs_are_not_started_early(started, options):
    try:
        api.compile(KERNEL, emit="cubin", gpu_name="sm_90", **options)
    except CompileError as error:
        assert "nvjitlink" in error.render().lower()  # not installed
    assert started == []


def test_a_compilation_starts_one_for_all_kernels(started, monkeypatch):
    items = []
    give = programs.WaitingProgram.give
    monkeypatch.setattr(programs.WaitingProgram, "give", lambda self, words: items.append(give(self, words)))
    second = KERNEL.replace("@k(", "@second(").partition("{\n")[2].rpartition("}")[0]
    whole = api.compile(KERNEL.rpartition("}")[0] + second + "}", emit="cubin", gpu_name="sm_90").data
    assert len(started) == 1 and items[0] is not None
    monkeypatch.setattr(programs.WaitingProgram, "give", lambda self, words: None)
    assert api.compile(KERNEL.rpartition("}")[0] + second + "}", emit="cubin", gpu_name="sm_90").data == whole
    assert not any(os.path.exists(program.folder) for program in started)


def test_nothing_is_started_where_nothing_is_assembled(started, tmp_path):
    api.compile(KERNEL, emit="ptx", gpu_name="sm_90")
    (tmp_path / "k.ptx").write_text(PTX)
    api.compile(str(tmp_path / "k.ptx"), emit="cubin", gpu_name="sm_80")
    with pytest.raises(CompileError):
        api.compile(KERNEL, emit="cubin", gpu_name="sm_90", ptxas=str(tmp_path / "no"))
    assert started == []


def test_it_ends_with_a_compilation_that_fails(started, monkeypatch):
    call = helper.call

    def refuse(function, *, meanwhile=None, **arguments):
        result = call(function, meanwhile=meanwhile, **arguments)
        if function == "compile":
            raise RuntimeError("refused")
        return result

    monkeypatch.setattr(helper, "call", refuse)
    with pytest.raises(CompileError, match="refused"):
        api.compile(KERNEL, emit="cubin", gpu_name="sm_90")
    (program,) = started
    assert program._child is None and not os.path.exists(program.folder)


OWNER = """\
import time
from tileiras.codegen import ptxas
found = ptxas.start()
print(found._child.pid, found.folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killing_the_waiting_compiler_leaves_nothing(number):
    words = [sys.executable, "-c", OWNER]
    owner = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    process, folder = owner.stdout.readline().split()
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    until_gone(int(process))
    limit = time.monotonic() + 300
    while os.path.exists(folder):
        assert time.monotonic() < limit, "the folder stays"
        time.sleep(0.01)
