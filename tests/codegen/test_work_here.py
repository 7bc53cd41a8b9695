"""LLVM runs in the process itself if the end of that process is survivable, with the same results."""

import os
import subprocess
import sys

import pytest

from tileiras.processes import helper

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="helpers are forked")


def says(number: int) -> int:
    os.write(1, b"output\n")
    os.write(2, b"error\n")
    return number + os.getpid()


def refuses() -> None:
    raise ValueError("refused")


@pytest.fixture
def functions(monkeypatch):
    for function in (says, refuses):
        monkeypatch.setitem(helper._functions(), function.__name__, function)
    helper.stop()
    yield
    helper.stop()


@pytest.fixture(params=[True, False], ids=["here", "helper"])
def here(request, monkeypatch, functions) -> bool:
    monkeypatch.setattr(helper, "_may_die", lambda: request.param)
    return request.param


def test_output_of_a_call_is_in_its_answer_only(here, capfd):
    before = sorted(os.listdir("/proc/self/fd")) if here else None
    done = []
    value, result = helper.call("says", number=1, meanwhile=lambda: done.append(1))
    assert result == "output\nerror" and done == [1]
    assert (value == 1 + os.getpid()) == here
    assert (helper.helper_pid() is None) == here
    with pytest.raises(RuntimeError, match="^refused$"):
        helper.call("refuses")
    if here:
        assert sorted(os.listdir("/proc/self/fd")) == before
    assert capfd.readouterr() == ("", "")


def test_calls_with_a_timeout_use_a_helper(functions, monkeypatch):
    monkeypatch.setattr(helper, "_may_die", lambda: True)
    value, result = helper.call("says", number=1, timeout=60.0)
    assert result == "output\nerror" and value == 1 + helper.helper_pid()


def test_work_stops_here_once_an_earlier_error_is_fatal(functions, monkeypatch):
    done = []
    monkeypatch.setattr(helper, "_may_die", lambda: not done)
    value, _ = helper.call("says", number=1, meanwhile=lambda: done.append(1))
    assert done == [1]
    assert value == 1 + helper.helper_pid()


CLOSED = """\
import os
from tileiras.processes import helper

helper._functions()["says"] = lambda: (os.write(1, b"output"), os.write(2, b"error"))[0]
helper.work_here(lambda: True)
os.close(1)
os.close(2)
found = helper.call("says")
closed = 0
for number in (1, 2):
    try:
        os.fstat(number)
    except OSError:
        closed += 1
os.write(0, f"{found} {closed}".encode())
"""


def test_streams_that_are_closed_stay_so():
    reading, writing = os.pipe()
    with open(reading) as file:
        subprocess.run([sys.executable, "-c", CLOSED], stdin=writing, check=True)
        os.close(writing)
        assert file.read() == "(6, 'outputerror') 2"
