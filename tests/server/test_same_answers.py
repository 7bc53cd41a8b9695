"""A command answers through the service as without it: outputs, exit codes, files, inherited state."""

import fcntl
import json
import os
import pty
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from invocations import INVOCATIONS, OURS, RECORDED, leave, make_inputs, normalized  # noqa: E402

from tests.processes import until  # noqa: E402
from tileiras.processes.service import request  # noqa: E402

EXPECTED = json.loads(RECORDED.read_text())
PTX = ("k.mlir", "--gpu-name=sm_90", "--emit=ptx")


FATAL = """\
module {
  llvm.func @k(%x: f32) attributes {nvvm.kernel} {
    llvm.inline_asm has_side_effects "nop; // $0", "q" %x : (f32) -> ()
    llvm.return
  }
}
"""
"""On which LLVM aborts."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("inputs")
    make_inputs(path)
    return path


def test_recorded_command_lines_have_their_answers(ptxas, service, inputs):
    before = service.facts()["requests"]
    wrong = {}
    for line in INVOCATIONS:
        present = set(os.listdir(inputs))
        done = subprocess.run(
            [*service.command(), *shlex.split(line)], cwd=inputs, env=service.environment(), capture_output=True,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        result = {
            "code": done.returncode, "error": normalized(done.stderr.decode(errors="replace")),
            "files": leave(inputs, present),
        }  # fmt: skip
        expected = {**EXPECTED[line], **OURS.get(line, {})}
        expected.pop("why", None)
        if result != expected:
            wrong[line] = (result, expected)
    assert wrong == {}
    assert service.facts()["requests"] == before + len(INVOCATIONS), "some were not answered by the service"


def test_llvm_s_end_is_reported_as_without_the_service(service, folder):
    """The request's process ends with LLVM, and the command does its work again."""
    (folder / "bad.llvm.mlir").write_text(FATAL)
    result = both(service, ("bad.llvm.mlir", "--gpu-name=sm_80", "--emit=ptx"), folder)
    assert result.code == 5 and b"note: LLVM ended with SIGABRT" in result.error and result.files == {}
    assert service.run((*PTX, "-o", "k.ptx"), folder).code == 0


def both(service, words, folder, **how):
    """The answer without the service, when that with it is the same and came from it."""
    before = service.facts()["requests"]
    served = service.run(words, folder, **how)
    assert service.facts()["requests"] == before + 1, "the service was not asked"
    own = service.run(words, folder, "off", **how)
    assert served == own
    return own


@pytest.mark.parametrize("words", [
    (*PTX, "-o", "k.ptx"),
    (*PTX, "-o", "-"),
    (*PTX, "-o", "/dev/stdout"),
    (*PTX, "-o", "/dev/stderr"),
    (*PTX, "--libdevice=explicit"),
    ("k.mlir", "--gpu-name=sm_90", "--emit=tileas", "-o", "k.out", "--mlir-print-ir-after-all"),
    ("k.mlir", "--gpu-name=sm_90", "--remarks=all", "--depfile=k.d", "-o", "k.cubin"),
    ("k.mlir", "--gpu-name=sm_90", "--save-temps", "-o", "k.cubin"),
    ("missing.mlir", "--gpu-name=sm_90"),
    ("k.mlir", "--gpu-name=sm_91"),
    ("k.mlir", "--unknown"),
    ("k.mlir", "-o", "k.mlir", "--gpu-name=sm_90"),
    ("--version",),
    ("--help",),
])  # fmt: skip
def test_a_command_line_has_one_answer(ptxas, service, folder, words):
    assert both(service, words, folder) is not None


def test_other_commands_have_one_answer(service, folder):
    assert both(service, ("k.mlir", "--canonicalize"), folder, program="tileiras-opt").output.startswith(b"cuda_tile")
    words = ("--mlir-to-cudatilebc", "k.mlir", "-o", "k.bc")
    assert both(service, words, folder, program="tileiras-translate").files["k.bc"][1].startswith(b"\x7fTileIR")


@pytest.mark.parametrize("words", [
    ("k.mlir", "--gpu-name=sm_80,sm_90", "--emit=ptx,cubin", "--header=k.h", "--source=k.cpp", "--depfile=k.d"),
    ("k.mlir", "--gpu-name=sm_90", "--header=k.h", "--source=-", "--stamp=k.stamp"),
    ("k.mlir", "--gpu-name=sm_90", "--header=k.h", "--source=k.h"),
    ("absent.mlir", "--gpu-name=sm_90", "--header=k.h", "--source=k.cpp", "--diagnostics=json"),
    ("--help",),
])  # fmt: skip
def test_kernels_for_c_plus_plus_have_one_answer(ptxas, service, folder, words):
    """The command that CMake and Meson run."""
    answer = both(service, words, folder, program="tileiras-embed")
    assert answer.code == (1 if "absent.mlir" in words or "--source=k.h" in words else 0)
    assert ("k.h" in answer.files) is ("--header=k.h" in words and answer.code == 0)


def test_a_header_that_is_as_it_should_be_keeps_its_time(service, folder):
    words = ("k.mlir", "--gpu-name=sm_90", "--header=k.h", "--source=k.cpp")
    for server in ("off", "auto"):
        done = subprocess.run(
            [*service.command("tileiras-embed"), *words], cwd=folder, env=service.environment(server), check=True
        )
        assert done.returncode == 0
        times = [os.stat(folder / name).st_mtime for name in ("k.h", "k.cpp")]
        assert server == "off" or times == [1, 1]
        for name in ("k.h", "k.cpp"):
            os.utime(folder / name, (1, 1))


def test_standard_input_is_a_pipe_or_a_file(service, folder):
    words = ("-", "--gpu-name=sm_90", "--emit=ptx", "-o", "-")
    text = (folder / "k.mlir").read_bytes()
    piped = both(service, words, folder, input=text)
    assert piped.output.startswith(b"//") or b".version" in piped.output
    items = []
    for server in ("auto", "off"):
        with open(folder / "k.mlir", "rb") as file:
            items.append((service.run(words, folder, server, stdin=file), file.read()))
    assert items[0] == items[1] and items[0][0] == piped


@pytest.fixture
def many_descriptors():
    """Let this process and its children have descriptors of four digits."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] < 4096:
        pytest.skip("the system allows too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("at_least", [0, 2000])
def test_descriptors_keep_their_numbers(service, folder, at_least, many_descriptors):
    read, low = os.pipe()
    write = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, at_least)
    os.close(low)
    with open(read, "rb") as reading:
        words = (*PTX, "-o", f"/dev/fd/{write}")
        answer = both(service, words, folder, pass_fds=(write,))
        os.close(write)
        data = reading.read()
    assert answer.code == 0 and data[: len(data) // 2] == data[len(data) // 2 :] and b".entry k" in data


def test_closed_outputs_and_outputs_without_a_reader(service, folder):
    for redirection in (">&-", "2>&-", "<&- >&- 2>&-"):
        line = " ".join(map(shlex.quote, [*service.command(), *PTX, "-o", "k.ptx"])) + " " + redirection
        items = []
        for server in ("auto", "off"):
            done = subprocess.run(
                ["sh", "-c", line], cwd=folder, env=service.environment(server), capture_output=True, check=False
            )
            items.append((done.returncode, done.stdout, done.stderr, (folder / "k.ptx").read_bytes()))
            (folder / "k.ptx").unlink()
        assert items[0] == items[1]
    items = []
    for server in ("auto", "off"):
        process = subprocess.Popen(
            [*service.command(), *PTX, "-o", "-"], cwd=folder, env=service.environment(server),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        process.stdout.close()
        items.append((process.stderr.read(), process.wait()))
        process.stderr.close()
    assert items[0] == items[1] == (b"", 2)


def test_a_full_device_is_reported(service, folder):
    items = []
    for server in ("auto", "off"):
        with open("/dev/full", "wb") as full:
            items.append(service.run((*PTX, "-o", "-"), folder, server, stdout=full))
            items.append(service.run(("--help",), folder, server, stdout=full))
    assert items[0] == items[2] and items[1] == items[3]
    assert items[0].code == items[1].code == 1 and items[1].error.count(b"IO failure on output stream") == 1


def test_a_terminal_is_one(service, folder):
    """The command queries its streams; a terminal is that of the client.

    The terminal has no escapes: progress lines depend on times, which the service changes.
    """
    items = []
    for server in ("auto", "off"):
        leader, follower = pty.openpty()
        streams = {"stdin": follower, "stdout": follower, "stderr": follower}
        service.run((*PTX, "-o", "-"), folder, server, environment={"TERM": "dumb"}, **streams)
        os.close(follower)
        data = b""
        while True:
            try:
                more = os.read(leader, 1 << 16)
            except OSError:  # a terminal ends so on Linux
                break
            if not more:
                break
            data += more
            if len(data) > 3000:
                break
        os.close(leader)
        items.append(data[:3000])
    assert items[0] == items[1] and b".version" in items[0]


def test_umask_folder_limits_and_variables_are_the_clients(service, folder):
    secret = both(service, (*PTX, "-o", "k.ptx"), folder, preexec_fn=lambda: os.umask(0o077))
    assert secret.files["k.ptx"][0] & 0o777 == 0o600

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    assert both(service, (*PTX, "-o", "k.ptx"), folder, preexec_fn=limited).code != 0
    there = {"TILEIRAS_CACHE_DIR": str(folder / "store")}
    service.run((*PTX, "-o", "k.ptx"), folder, environment=there) if not (folder / "store").mkdir() else None
    assert any((folder / "store").iterdir()), "the store that the environment names"
    wrong = both(service, PTX, folder, environment={"TILEIRAS_CACHE_MODE": "never"})
    assert wrong.code == 2 and b"TILEIRAS_CACHE_MODE=never" in wrong.error


@pytest.mark.skipif(os.geteuid() != 0, reason="only a privileged user can have other groups")
def test_a_process_with_other_groups_is_its_own(service, folder):
    groups = [*os.getgroups(), 4242]
    assert both(service, (*PTX, "-o", "k.ptx"), folder, extra_groups=groups).code == 0
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, extra_groups=groups)
    try:
        with pytest.raises(request.Refused, match="Groups"):
            request.take_over_process(process.pid, os.getegid())
    finally:
        process.communicate(b"\n")


def test_a_wrong_value_for_the_service_is_reported(service, folder):
    answer = service.run(PTX, folder, "never")
    assert answer.code == 2 and b"TILEIRAS_SERVER=never: accepted are auto, off" in answer.error
    answer = service.run((*PTX, "--server=never"), folder, "off")
    assert answer.code == 1 and b"Cannot find option named 'never'" in answer.error


def test_the_last_word_says_whether_the_service_is_asked(service, folder):
    before = service.facts()["requests"]
    assert service.run((*PTX, "--server=off", "-o", "k.ptx"), folder).code == 0
    assert service.run((*PTX, "--server=auto", "--server", "off", "-o", "k.ptx"), folder).code == 0
    assert service.facts()["requests"] == before
    assert service.run((*PTX, "-server=auto", "-o", "k.ptx"), folder, "off").code == 0
    assert service.facts()["requests"] == before + 1


def test_the_client_loads_nothing_of_the_compiler(service, folder):
    """Modules that are loaded when the client ends, besides those that Python loads at its start."""
    start = "import os, sys\nbefore = set(sys.modules)\n"
    text = (
        "end = os._exit\ndef told(code):\n    print(*sorted(set(sys.modules) - before), file=sys.stderr, flush=True)\n"
        "    end(code)\nos._exit = told\nfrom tileiras.processes.service import client\nclient.run('tileiras')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", start + text, *PTX, "-o", "-"], env=service.environment(), cwd=folder,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ".entry k" in done.stdout
    own = {name for name in done.stderr.split() if name.startswith("tileiras")}
    assert own == {
        "tileiras", "tileiras.processes", "tileiras.processes.sockets", "tileiras.processes.service",
        "tileiras.processes.service.client", "tileiras.processes.service.protocol",
    }  # fmt: skip
    assert set(done.stderr.split()) - own <= {"__future__", "_socket", "stat", "_signal"}


def test_resources_of_a_request_are_reported(ptxas, service, folder):
    """Processor time of each of the last requests: that of its child, with ptxas, and that of the zygote for it."""
    words = ("k.mlir", "--gpu-name=sm_90", "-o", "k.cubin")
    started = subprocess.Popen(
        [*service.command(), *words], cwd=folder, env=service.environment(), stdout=subprocess.DEVNULL
    )
    assert started.wait() == 0
    rows = until(
        lambda: [row for row in service.facts()["last_requests"] if row["client"] == started.pid], "it is not told of"
    )
    (row,) = rows
    assert row["processor_seconds"] > 0.005 and row["seconds"] > 0 and row["service_seconds"] >= 0
    facts = service.facts()
    result = [one["processor_seconds"] + one["service_seconds"] for one in facts["last_requests"]]
    assert facts["processor_seconds"] > sum(result) and len(result) <= facts["requests"]
    assert " s each in the median of the last " in service.control("status").stdout


def test_the_answer_has_the_processor_time(service, folder):
    """Exit code and microseconds, as sent to the client."""
    code = (
        "import sys\nfrom tileiras.processes import sockets\nfrom tileiras.processes.service import client, protocol\n"
        "whole = sockets.received\n"
        "def received(read):\n    kind, body = whole(read)\n"
        "    if kind == protocol.EXIT:\n        print([int.from_bytes(f, 'little') for f in sockets.unpack(body)],"
        " file=sys.stderr, flush=True)\n    return kind, body\n"
        "sockets.received = received\nclient.run('tileiras')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *PTX, "-o", "k.ptx"], env=service.environment(), cwd=folder, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    exit_code, taken = json.loads(done.stderr)
    assert exit_code == 0 and 1000 < taken < 60_000_000
