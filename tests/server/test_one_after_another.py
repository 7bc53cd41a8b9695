"""Children that answer several requests: each answer is the one of a fresh child, and the state that a command leaves
behind reaches no other command."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Service

from tests.processes import children, until
from tileiras.processes.service import worker
from tileiras.processes.service.zygote import MORE_SPARES

PTX = ("k.mlir", "--gpu-name=sm_90", "--emit=ptx", "-o", "k.ptx")
EXAMPLES = Path(__file__).parents[2] / "examples"


def settled(service: Service) -> dict:
    """The figures of the service once no request runs and no child is about to end."""
    def quiet() -> dict | None:
        facts = service.facts()
        return facts if facts["running"] == 0 and facts["waiting"] + 1 == len(children(facts["pid"])) else None

    return until(quiet, "a child neither waits nor ends")


def forked(service: Service) -> int:
    return settled(service)["forked"]


def test_children_answer_again(own_service, folder):
    own_service.start()
    first = own_service.run(PTX, folder)
    before = forked(own_service)
    assert [own_service.run(PTX, folder) for _ in range(8)] == [first] * 8 and first.code == 0
    facts = settled(own_service)
    assert facts["requests"] == 9 and facts["forked"] <= before + MORE_SPARES, "each request has had a child of its own"


@pytest.mark.slow
def test_a_child_answers_so_many_and_no_more(own_service, folder):
    own_service.start()
    before = forked(own_service)
    count = 0
    while forked(own_service) <= before + MORE_SPARES:
        for _ in range(16):
            subprocess.run([*own_service.command(), *PTX], cwd=folder, env=own_service.environment(), check=True)
        count += 16
        assert count <= (before + MORE_SPARES + 1) * worker.MOST_REQUESTS, "none has ended"
    assert count >= worker.MOST_REQUESTS


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["an error", "words", "a limit", "an environment", "priority"])
def test_files_of_a_command_belong_to_no_other(own_service, folder, what):
    """After commands of every kind a plain one has the answer that it had before them."""
    own_service.start()
    plain = own_service.run(PTX, folder)
    before = forked(own_service)
    commands = {
        "an error": lambda: own_service.run(("missing.mlir", "--gpu-name=sm_90"), folder).code == 1,
        "words": lambda: own_service.run((*PTX[:-1], "-"), folder).output == plain.files["k.ptx"][1],
        "a limit": lambda: own_service.run(
            PTX, folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        ).code != 0,
        "an environment": lambda: own_service.run(PTX, folder, environment={"TILEIRAS_CACHE_MODE": "never"}).code == 2,
        "priority": lambda: own_service.run(PTX, folder, preexec_fn=lambda: os.nice(5)) == plain,
    }
    for _ in range(3):
        assert commands[what]()
    assert forked(own_service) >= before + 2, "a child goes on that is not what it was"
    assert [own_service.run(PTX, folder) for _ in range(4)] == [plain] * 4


def test_each_command_has_its_umask_folder_and_variables(own_service, folder, tmp_path_factory):
    """The children go on to the next command: none of these differences ends them."""
    own_service.start()
    other = tmp_path_factory.mktemp("other")
    (other / "k.mlir").write_text((folder / "k.mlir").read_text().replace("exp %v", "exp2 %v"))
    store = tmp_path_factory.mktemp("store")
    expected = {each: own_service.run(PTX, each, "off").files["k.ptx"][1] for each in (folder, other)}
    assert expected[folder] != expected[other]
    before = forked(own_service)
    for turn in range(4):
        for each, mask in ((folder, 0o077), (other, 0o022)):
            answer = own_service.run(PTX, each, preexec_fn=lambda mask=mask: os.umask(mask))
            assert answer.files["k.ptx"] == (0o100666 & ~mask, expected[each])
        named = store / str(turn)
        assert own_service.run(PTX, folder, environment={"TILEIRAS_CACHE_DIR": str(named)}).code == 0
        assert any(named.iterdir()), "the store that the environment names"
    assert forked(own_service) <= before + MORE_SPARES


@pytest.mark.slow
def test_a_store_removed_between_commands_is_created_again(own_service, folder, tmp_path_factory):
    own_service.start()
    store = tmp_path_factory.mktemp("stores") / "store"
    environment = {"TILEIRAS_CACHE_DIR": str(store)}
    for _ in range(6):
        assert own_service.run(PTX, folder, environment=environment).code == 0
        assert any(store.iterdir())
        shutil.rmtree(store)


def test_programs_and_files_of_another_state_are_met(own_service, folder, ptxas):
    """A ptxas that is replaced between two commands of the same child."""
    own_service.start()
    program = folder / "ptxas"
    words = ("k.mlir", "--gpu-name=sm_90", f"--ptxas={program}", "-o", "k.cubin")
    with_store = {"TILEIRAS_CACHE_DIR": str(folder / "store")}
    for turn in range(4):
        draft = folder / "draft"
        (folder / "store").mkdir(exist_ok=True)
        draft.write_text(f'#!/bin/sh\ntest "$1" = --version && echo "V{turn}.0.0" && exit\nexec {ptxas} "$@"\n')
        draft.chmod(0o755)
        draft.rename(program)
        answer = own_service.run(words, folder, environment=with_store)
        assert answer.code == 0 and not answer.error
        rows = json.loads((folder / "store" / "tools.json").read_text())
        assert f"{turn}.0.0" in rows.values(), "the version of the program that was there before"


@pytest.mark.slow
def test_any_order_gives_the_same_bytes(own_service, tmp_path, ptxas):
    own_service.start()
    commands = [
        (str(path), f"--gpu-name={target}", "-o", "out", *more)
        for path in sorted((EXAMPLES / "bytecode").glob("*.tileirbc"))
        for target, more in (("sm_90", ()), ("sm_120", ("--emit=ptx",)), ("sm_100", ("--emit=llvm", "-O1")))
    ]
    expected = {words: own_service.run(words, tmp_path, "off") for words in commands}
    chance = random.Random(1)
    for _ in range(3):
        chance.shuffle(commands)
        for words in commands:
            assert own_service.run(words, tmp_path) == expected[words], words


LEFT = """\
import atexit, os, resource, signal, sys, threading, time, types, warnings
from tileiras.processes import helper
from tileiras.processes.service.unchanged import State

def module():
    sys.modules["users"] = types.ModuleType("users")

def thread():
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (soft - 1 if soft > 0 else 0, (hard if hard > 0 else 1 << 40) - 1))

def memory():
    global kept
    kept = bytearray(os.urandom(1) * (128 << 20))

def process():
    if os.fork() == 0:
        time.sleep(5)

LEAVE = {
    "nothing": lambda: None,
    "a module of Python's": lambda: __import__("colorsys"),
    "a module": module,
    "a thread": thread,
    "a process": process,
    "a descriptor": lambda: os.open("/", os.O_RDONLY),
    "a handler": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "a blocked signal": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]),
    "a limit": limit,
    "a lower priority": lambda: os.nice(1),
    "a function to call at the end": lambda: atexit.register(print),
    "a place of modules": lambda: sys.path.append("/"),
    "a filter of warnings": lambda: warnings.simplefilter("error"),
    "a depth of calls": lambda: sys.setrecursionlimit(5000),
    "memory": memory,
    "a helper of LLVM's": lambda: helper.start(),
}

def is_kept(leave):
    state = State()
    open_now = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    assert state.lasts and state.is_kept(open_now)
    leave()
    return state.is_kept(open_now)

for name, leave in LEAVE.items():
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            code = is_kept(leave)
        finally:
            helper.stop()
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        print(name)
"""


def test_leftovers_are_found(tmp_path):
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["nothing", "a module of Python's"]


def test_a_limit_on_the_resources_of_a_process(own_service, folder):
    """The service has the limit, as its clients have: each child answers one request."""
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (3600, resource.getrlimit(resource.RLIMIT_CPU)[1]))

    subprocess.run(
        [sys.executable, "-m", "tileiras.processes.service.command", "start"],
        env=own_service.environment(), check=True,
        cwd=own_service.runtime, preexec_fn=limited,
    )  # fmt: skip
    before = forked(own_service)
    for _ in range(4):
        assert own_service.run(PTX, folder, preexec_fn=limited).code == 0
    assert forked(own_service) == before + 4


def test_a_child_that_is_killed_between_two_requests_is_replaced(own_service, folder):
    own_service.start()
    answer = own_service.run(PTX, folder)
    for _ in range(4):
        zygote = settled(own_service)["pid"]
        for number in children(zygote):
            os.kill(number, signal.SIGKILL)  # the guard, too
        assert own_service.run(PTX, folder) == answer
    assert settled(own_service)["pid"] == zygote
