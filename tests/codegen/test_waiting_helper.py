"""A helper that is started before its process is a user's takes over from it what the user's process has."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are taken over on Linux alone")

PROGRAM = """\
import json, os, resource, signal, sys, time
from tileiras import forked_memory
from tileiras.codegen import isolation

folder, order = sys.argv[1:]

def where(**arguments):
    umask = os.umask(0)
    os.umask(umask)
    return {
        "folder": os.getcwd(), "umask": umask, "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": sorted(os.sched_getaffinity(0)), "limit": list(resource.getrlimit(resource.RLIMIT_FSIZE)),
        "VALUE": os.environ.get("VALUE"), "gone": os.environ.get("GONE"), "pid": os.getpid(),
        "null": sum(os.path.realpath(f"/proc/self/fd/{n}") == os.devnull for n in range(3, 512)),
    }

functions = isolation._functions()
functions["where"] = where
functions["warm_up"] = lambda: None
os.environ["GONE"] = "here"
theirs, ours = os.pipe()
others = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]

isolation.start_waiting(forked_memory.SharedPages())
waiting = isolation.helper_pid()
os.chdir(folder)
os.umask(0o37)
os.setpriority(os.PRIO_PROCESS, 0, 7)
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 21))
os.environ["VALUE"] = "1"
del os.environ["GONE"]
isolation.end_with(theirs)
if order == "ends":
    print(waiting, flush=True)
    os.close(ours)
    time.sleep(100)
found, _ = isolation.call("where")
print(json.dumps([waiting, found, where()]))
"""


def run(folder: Path, order: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM, str(folder), order]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def test_it_is_what_its_process_has_become(tmp_path):
    done = run(tmp_path, "works")
    assert done.returncode == 0, done.stderr
    waiting, helper, owner = json.loads(done.stdout)
    assert helper.pop("pid") == waiting != owner.pop("pid")
    assert (helper.pop("null"), owner.pop("null")) == (0, 5), "it holds what its process had open before"
    assert helper == owner and owner["folder"] == os.path.realpath(tmp_path) and owner["priority"] == 7
    assert (owner["VALUE"], owner["gone"], owner["umask"]) == ("1", None, 0o37)


def test_it_ends_its_process_with_the_user_s(tmp_path):
    done = run(tmp_path, "ends")
    assert done.returncode == -9
    limit = time.monotonic() + 60
    while os.path.exists(f"/proc/{done.stdout.strip()}/cwd"):
        assert time.monotonic() < limit, "the helper goes on"
        time.sleep(0.01)
