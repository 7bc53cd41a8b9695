"""The progress line of long work: drawn on terminals only, and removed at the end."""

import io

import pytest

from tileiras.support import progress
from tileiras.support.progress import Progress, over


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    return Terminal()


def rows(stream):
    """The lines that were drawn, each over the one before."""
    return stream.getvalue().split("\r\x1b[K")[1:]


def test_steps_are_counted_and_the_line_is_removed(terminal):
    with Progress("sweep", total=3, stream=terminal) as line:
        for name in ("a", "b", "c"):
            line.step(name)
    assert [row.split("  ")[0] for row in rows(terminal)] == ["[1/3] sweep: a", "[2/3] sweep: b", "[3/3] sweep: c", ""]


def test_a_line_stays_a_line(terminal):
    with Progress("report", stream=terminal) as line:
        line.say("a name of two\nlines, and much longer than the terminal is wide")
    assert max(map(len, rows(terminal))) < 30 and "\n" not in terminal.getvalue()


def test_it_is_removed_when_the_work_fails(terminal):
    with pytest.raises(RuntimeError), Progress("sweep", stream=terminal) as line:
        line.step("a")
        raise RuntimeError
    assert rows(terminal)[-1] == ""


def test_frequent_steps_are_drawn_rarely(terminal, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 3600.0)
    with Progress("sweep", total=1000, stream=terminal) as line:
        for number in range(1000):
            line.step(str(number))
    assert len(rows(terminal)) == 2


def test_nothing_is_written_where_there_is_no_terminal(terminal, monkeypatch):
    plain = io.StringIO()
    with Progress("sweep", total=1, stream=plain) as line:
        line.step("a")
    monkeypatch.setenv("TERM", "dumb")
    with Progress("sweep", total=1, stream=terminal) as line:
        line.step("a")
    assert plain.getvalue() == terminal.getvalue() == ""


def test_items_are_given_as_they_are(monkeypatch, terminal):
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(over("packing", ["x", "y"], str.upper)) == ["x", "y"]
    assert "[2/2] packing: Y" in terminal.getvalue()
