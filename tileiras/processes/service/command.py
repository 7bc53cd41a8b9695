"""tileiras-server start|stop|status: the service of this user and installation.

    start [--idle=SECONDS]    start the service and wait until it answers; it exits after SECONDS without a request
    stop                      stop the service after its running requests, and the file-system monitor
    status                    print the state of both; exit code 1 if neither runs

`status --json` prints one object.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras import cli
from tileiras.build.watch.monitor import client as fsmonitor
from tileiras.build.watch.monitor import endpoint
from tileiras.cli import process
from tileiras.cli.process import UsageError
from tileiras.diagnostics import ExitCode, plural
from tileiras.processes import sockets
from tileiras.processes.service import client, protocol

if TYPE_CHECKING:
    import argparse

ANSWER_SECONDS = 30.0
"""Seconds that a service may take to load, and to report its state."""


def ask(kind: bytes) -> dict[str, object] | None:
    """Send STATUS or STOP and return the service's facts; None if no service answers."""
    identity = protocol.identity()
    try:
        with contextlib.closing(sockets.connected(sockets.name_of(identity), ANSWER_SECONDS)) as connection:
            if connection.recv(1) != protocol.GREETING:
                return None
            connection.sendall(sockets.pack(kind, identity))
            answer, body = sockets.received(connection.recv)
            return json.loads(sockets.unpack(body)[0]) if answer == protocol.FACTS else None
    except (OSError, sockets.ProtocolError):
        return None


def start(idle: float = protocol.IDLE) -> str:
    """Start the service unless it runs; return an error message, or an empty string once it answers."""
    if not sockets.supported():
        return "the service needs Linux, and a user that is the same in effect"
    if ask(protocol.STATUS) is not None:
        return ""
    reading, writing = os.pipe()
    try:
        name = sockets.name_of(protocol.identity())
        number = client.spawn(name, idle, writing)
    except OSError as error:
        os.close(reading)
        return f"the service cannot be started: {error.strerror}"
    finally:
        os.close(writing)
    # The service closes its end of the pipe when it is ready.
    with open(reading, encoding="utf-8", errors="backslashreplace") as file:
        text = file.read().strip()
    limit = time.monotonic() + ANSWER_SECONDS
    while ask(protocol.STATUS) is None:
        # Another process may be starting as the service; ours has exited in that case.
        if text or time.monotonic() > limit:
            return text or "the service does not answer"
        with contextlib.suppress(ChildProcessError):  # already reaped
            os.waitpid(number, os.WNOHANG)
        time.sleep(0.02)
    return ""


def stop() -> bool:
    """Stop the service and wait for its exit; return whether one ran.  A service that is loading is awaited first."""
    limit = time.monotonic() + ANSWER_SECONDS
    while (facts := ask(protocol.STOP)) is None:
        if _clear(sockets.name_of(protocol.identity())) or time.monotonic() > limit:
            return False
        time.sleep(0.02)
    _wait_for_exit(facts, limit)
    return True


def _clear(name: str) -> bool:
    """Remove the files of a killed process of this name; False if a process, possibly still loading, holds the lock."""
    from tileiras.processes.service import zygote

    try:
        directory = sockets.open_directory()
    except OSError:
        return True
    try:
        return zygote.clear(directory, name)
    except OSError:
        return True
    finally:
        os.close(directory)


def _wait_for_exit(facts: dict[str, Any], limit: float) -> None:
    """Wait until the process of `facts` has exited, reaped or not, at most until the monotonic time `limit`."""
    with contextlib.suppress(OSError):
        while time.monotonic() < limit:
            with open(f"/proc/{facts['pid']}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] == b"Z":
                    return
            time.sleep(0.01)


def _stop_monitor() -> None:
    """Stop the monitor and wait for its exit."""
    facts = fsmonitor.facts(endpoint.STOP) if sockets.supported() else None
    if facts is not None:
        _wait_for_exit(facts, time.monotonic() + ANSWER_SECONDS)
    _clear(endpoint.name())


def _watching(facts: dict[str, Any] | None) -> str:
    """Format the monitor's state, one line for each build directory."""
    if facts is None:
        return ""
    lines = [f"monitor: process {facts['pid']}"]
    for checkout in facts["checkouts"]:
        text = f" ({checkout['reason']})" if checkout["reason"] else ""
        folders = ", ".join(checkout["folders"]) or os.path.dirname(checkout["notes"])
        lines.append(f"  {checkout['state']}{text}: {folders}, {plural(checkout['files'], 'file')}")
    return "\n".join(lines) + "\n"


def _text(facts: dict[str, object]) -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(str(facts["since"]))))
    last = facts["last_requests"]
    times = [row["processor_seconds"] + row["service_seconds"] for row in last] if isinstance(last, list) else []
    each = f", {statistics.median(times):.3f} s each in the median of the last {len(times)}" if times else ""
    cpu_time = f"{float(str(facts['processor_seconds'])):.2f} s of processor time{each}"
    return (
        f"process {facts['pid']}, tileiras {facts['version']}, since {since}\n"
        f"socket {facts['socket']}\n"
        f"{facts['requests']} requests, {facts['running']} running\n"
        f"{cpu_time}, {int(str(facts['memory'])) >> 10} MB\n"
    )


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parsers.Parser("tileiras-server", "The compile service of this user.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="start|stop|status", parser_class=cli.parsers.SubParser
    )
    starting = commands.add_parser("start", help="start the service and wait until it answers")
    starting.add_argument(
        "--idle", type=float, default=protocol.IDLE, metavar="SECONDS", help="end after so long without a request"
    )
    commands.add_parser("stop", help="end the service when its requests have ended")
    status = commands.add_parser("status", help="print the state of the service")
    status.add_argument("--json", action="store_true", help="as one object")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as stopped:
        return ExitCode.USAGE if stopped.code else ExitCode.SUCCESS
    except UsageError as error:
        process.tell("tileiras-server: error", error)
        return ExitCode.USAGE
    if options.command == "start":
        wrong = start(options.idle)
        if wrong:
            print(f"tileiras-server: error: {wrong}", file=sys.stderr)
        return ExitCode.USAGE if wrong else ExitCode.SUCCESS
    if options.command == "stop":
        _stop_monitor()
        stop()
        return ExitCode.SUCCESS
    facts, watching = ask(protocol.STATUS), fsmonitor.facts()
    if options.json:
        print(json.dumps({**(facts or {}), **({"monitor": watching} if watching is not None else {})}))
    else:
        print((_text(facts) if facts is not None else "no service\n") + _watching(watching), end="")
    return ExitCode.USAGE if facts is None and watching is None else ExitCode.SUCCESS


def program() -> int:
    """Run `main` as a separate process."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())
