"""A command or a build that is killed, at any point, leaves no process and no file behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from invocations import KERNEL

from tests.processes import descendants, until

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked for in /proc")

SLOW_LLVM = """\
from tileiras.codegen import llvm_pipeline
import time, pathlib, sys
def compile(**named):
    pathlib.Path("started").write_text("")
    time.sleep(100)
llvm_pipeline.REQUESTS["compile"] = compile
from tileiras.cli.tileiras import program
sys.exit(program())
"""


REPORT = """\
import os, sys
from tileiras.codegen import toolkit
found = toolkit.find_program
def find(name, override=None):
    return os.path.abspath("ptxas") if name == "ptxas" else found(name, override)
toolkit.find_program = find
from tileiras.cli.tileiras_report import program
sys.exit(program())
"""


SCONSTRUCT = """\
from tileiras.build import tool
env = Environment(tools=["default", tool])
for name in ("k", "second"):
    env.TileKernel(name + ".mlir", sm="sm_80", emit="cubin", ptxas="ptxas")
"""


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def command(tmp_path):
    """Start the command in a new process group; yield it and its children once `started` exists."""
    (tmp_path / "k.mlir").write_text(KERNEL.replace("TYPE", "f32"))
    (tmp_path / "temporary").mkdir()
    ptxas = tmp_path / "ptxas"
    # By the end of the second the command has reported this process to its helper, which ends it.
    ptxas.write_text("#!/bin/sh\ntest $1 = --version && exit\nsleep 1\necho > ../../started\nexec sleep 100\n")
    ptxas.chmod(0o755)
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    started = []

    words = ("k.mlir", "--gpu-name=sm_80", f"--ptxas={ptxas}", "--cache=off", "-o", "k.cubin")

    def start(*python, arguments=words):
        process = subprocess.Popen(
            [sys.executable, *python, *arguments],
            cwd=tmp_path, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": path, "TILEIRAS_CACHE_DIR": "off"},
        )  # fmt: skip
        started.append(process)
        until((tmp_path / "started").exists, "it does not get that far")
        return process, descendants(process.pid)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("send, number", [
    (os.kill, signal.SIGTERM), (os.kill, signal.SIGHUP), (os.kill, signal.SIGKILL),
    (os.killpg, signal.SIGTERM), (os.killpg, signal.SIGINT),
])  # fmt: skip
def test_a_command_killed_during_ptxas_leaves_nothing(command, tmp_path, send, number):
    process, inner = command("-m", "tileiras.cli.tileiras")
    assert len(inner) == 2, "LLVM's process and ptxas"
    send(process.pid, number)
    _, result = process.communicate()
    assert process.returncode == -number and result == b""
    until(lambda: not any(map(running, inner)), "a child goes on")
    until(lambda: not os.listdir(tmp_path / "temporary"), "a temporary folder stays")
    assert sorted(os.listdir(tmp_path)) == ["k.mlir", "ptxas", "started", "temporary"]


def test_nothing_is_left_of_a_report_that_is_killed(command, tmp_path):
    process, inner = command("-c", REPORT, arguments=("k.mlir", "--gpu-name=sm_80", "-o", "k.html"))
    assert len(os.listdir(tmp_path / "temporary")) == 2, "the report's folder and that of ptxas"
    process.kill()
    until(lambda: not any(map(running, inner)), "a child goes on")
    until(lambda: not os.listdir(tmp_path / "temporary"), "a temporary folder stays")
    assert sorted(os.listdir(tmp_path)) == ["k.mlir", "ptxas", "started", "temporary"]


def test_llvm_ends_when_the_command_is_killed(command):
    process, inner = command("-c", SLOW_LLVM)
    assert len(inner) == 1
    process.kill()
    until(lambda: not any(map(running, inner)), "LLVM's process goes on")


def test_workers_end_when_the_build_is_killed(command, tmp_path):
    second = (tmp_path / "k.mlir").read_text().replace("@k(", "@second(")
    (tmp_path / "second.mlir").write_text(second)
    (tmp_path / "SConstruct").write_text(SCONSTRUCT.replace('"ptxas"', repr(str(tmp_path / "ptxas"))))
    process, _ = command("-m", "SCons", "-j2", arguments=())
    # A server of forks, two workers, LLVM for each, and ptxas.
    inner = until(
        lambda: (result := descendants(process.pid)) and len(result) >= 7 and result, "it does not get that far"
    )
    process.kill()
    until(lambda: not any(map(running, inner)), "a child goes on")
    assert not [name for name in os.listdir(tmp_path / "temporary") if name.startswith("tileiras-")]


@pytest.mark.parametrize("name", ["opt", "run", "translate", "cache", "watch"])
def test_other_commands_end_without_a_word_as_well(tmp_path, name):
    script = f"import sys, tileiras.cli.tileiras_{name} as command\ndef main():\n    print('started', flush=True)\n"
    script += "    import time; time.sleep(100)\ncommand.main = main\nsys.exit(command.program())"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()}, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGINT)
    _, result = process.communicate()
    assert (process.returncode, result) == (-signal.SIGINT, b"")


def test_a_command_without_a_reader_of_its_output_is_silent():
    words = ["-m", "tileiras.cli.tileiras_opt", "--help"]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    result = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), result) == (2, b"")
