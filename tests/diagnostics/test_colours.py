"""Colours of diagnostics: on terminals only, and the text is the same without them."""

import io
import os
import re
import subprocess
import sys

import pytest

from tileiras.diagnostics import colours

TEXT = """\
k.mlir:4:17: error: use of undeclared SSA value name
  %2 = addf %a, %b : tile<4xf32>
                ^
loc("kernel.py":12:8): error: no
    print("error: this is source")
note: in k.tileirbc: offset 12
tileiras: error: a mistake
warning: w"""


def test_the_text_is_the_same_but_for_the_colours():
    painted = colours.painted(TEXT)
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == TEXT
    lines = painted.split("\n")
    assert [("\x1b" in line) for line in lines] == [True, False, True, True, False, True, True, True]
    assert "\x1b[1;31merror: " in lines[0] and "\x1b[1;36mnote: " in lines[5]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream, environment, wanted", [
    (Terminal(), {}, True), (io.StringIO(), {}, False), (Terminal(), {"NO_COLOR": "1"}, False),
    (Terminal(), {"NO_COLOR": ""}, True), (Terminal(), {"TERM": "dumb"}, False),
])  # fmt: skip
def test_only_terminals_without_no_color(monkeypatch, stream, environment, wanted):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert colours.is_enabled(stream) == wanted
    assert (colours.for_stream("error: e", stream) != "error: e") == wanted


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_command_on_a_terminal(tmp_path):
    """The whole command, whose standard error is a pseudo-terminal."""
    (tmp_path / "k.mlir").write_text("cuda_tile.module @m {\n  entri @k() {}\n}\n")
    command = [sys.executable, "-m", "tileiras", str(tmp_path / "k.mlir"), "--gpu-name=sm_90", "--emit=ptx"]
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        leader, follower = os.openpty()
        variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        variables |= {"TERM": "xterm", "TILEIRAS_CACHE_DIR": "off", **environment}
        done = subprocess.run(command, stderr=follower, env=variables, check=False)
        os.close(follower)
        result = os.read(leader, 1 << 16)
        os.close(leader)
        assert done.returncode == 3 and (b"\x1b[1;31merror: " in result) == coloured and b"entri" in result
