"""tileiras-server start|stop|status: the service of this user, for this installation.

    start [--idle=SECONDS]    starts the service, and waits until it answers; it ends after that long without a request
    stop                      ends it when the requests that run have ended, and what watches the folders of builds
    status                    what both are doing; exit code 1 where there is neither

`status --json` prints one object.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from tileiras.cli import process
from tileiras.diagnostics import ExitCode, counted
from tileiras.fsmonitor import client as fsmonitor
from tileiras.fsmonitor import endpoint
from tileiras.server import client, messages, protocol

ANSWER_SECONDS = 30.0
"""What a service may take to load, and to say what it is doing."""


def ask(kind: bytes) -> dict[str, object] | None:
    """What the service says to STATUS or STOP; None where there is none that answers."""
    identity = protocol.identity()
    try:
        directory = protocol.open_directory()
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(protocol.address(directory, protocol.name_of(identity)))
            if messages.peer(connection)[1] != os.geteuid() or connection.recv(1) != protocol.GREETING:
                return None
            messages.send(connection, kind, identity)
            answer, fields, _ = messages.receive(connection)
            return json.loads(fields[0]) if answer == protocol.FACTS else None
    except (OSError, EOFError, protocol.ProtocolError):
        return None
    finally:
        os.close(directory)


def start(idle: float = protocol.IDLE) -> str:
    """Starts the service unless there is one; what is wrong, or an empty string once it answers."""
    if not protocol.supported():
        return "the service needs Linux, and a user that is the same in effect"
    if ask(protocol.STATUS) is not None:
        return ""
    reading, writing = os.pipe()
    try:
        name = protocol.name_of(protocol.identity())
        number = client.spawn(name, idle, writing)
    except OSError as error:
        os.close(reading)
        return f"the service cannot be started: {error.strerror}"
    finally:
        os.close(writing)
    # The service lets go of this when it is ready.
    with open(reading, encoding="utf-8", errors="backslashreplace") as file:
        said = file.read().strip()
    limit = time.monotonic() + ANSWER_SECONDS
    while ask(protocol.STATUS) is None:
        # Another process may be becoming the service; ours has ended then.
        if said or time.monotonic() > limit:
            return said or "the service does not answer"
        with contextlib.suppress(ChildProcessError):  # reaped by now
            os.waitpid(number, os.WNOHANG)
        time.sleep(0.02)
    return ""


def stop() -> bool:
    """Ends the service, and waits for it; whether there was one.  One that is loading is waited for first."""
    limit = time.monotonic() + ANSWER_SECONDS
    while (facts := ask(protocol.STOP)) is None:
        if _clear(protocol.name_of(protocol.identity())) or time.monotonic() > limit:
            return False
        time.sleep(0.02)
    while os.path.exists(f"/proc/{facts['pid']}") and not _is_zombie(int(str(facts["pid"]))):
        if time.monotonic() > limit:
            break
        time.sleep(0.01)
    return True


def _clear(name: str) -> bool:
    """Removes what a killed process of this name has left; False where one holds the lock, which may be loading."""
    from tileiras.server import zygote

    try:
        directory = protocol.open_directory()
    except OSError:
        return True
    try:
        return zygote.clear(directory, name)
    except OSError:
        return True
    finally:
        os.close(directory)


def _is_zombie(number: int) -> bool:
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def _stop_monitor() -> None:
    """Ends the monitor, and waits for it."""
    facts = fsmonitor.facts(endpoint.STOP) if protocol.supported() else None
    limit = time.monotonic() + ANSWER_SECONDS
    while facts is not None and os.path.exists(f"/proc/{facts['pid']}") and not _is_zombie(int(str(facts["pid"]))):
        if time.monotonic() > limit:
            break
        time.sleep(0.01)
    _clear(endpoint.name())


def _watching(facts: dict[str, Any] | None) -> str:
    """What the monitor watches, a line for each build directory."""
    if facts is None:
        return ""
    lines = [f"monitor: process {facts['pid']}"]
    for checkout in facts["checkouts"]:
        told = f" ({checkout['reason']})" if checkout["reason"] else ""
        folders = ", ".join(checkout["folders"]) or os.path.dirname(checkout["notes"])
        lines.append(f"  {checkout['state']}{told}: {folders}, {counted(checkout['files'], 'file')}")
    return "\n".join(lines) + "\n"


def _shown(facts: dict[str, object]) -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(str(facts["since"]))))
    last = facts["last_requests"]
    times = [row["processor_seconds"] + row["service_seconds"] for row in last] if isinstance(last, list) else []
    each = f", {statistics.median(times):.3f} s each in the median of the last {len(times)}" if times else ""
    taken = f"{float(str(facts['processor_seconds'])):.2f} s of processor time{each}"
    return (
        f"process {facts['pid']}, tileiras {facts['version']}, since {since}\n"
        f"socket {facts['socket']}\n"
        f"{facts['requests']} requests, {facts['running']} running\n"
        f"{taken}, {int(str(facts['memory'])) >> 10} MB\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    import argparse

    parser = argparse.ArgumentParser(prog="tileiras-server", description="The compile service of this user.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="start|stop|status")
    starting = commands.add_parser("start", help="start the service and wait until it answers")
    starting.add_argument(
        "--idle", type=float, default=protocol.IDLE, metavar="SECONDS", help="end after so long without a request"
    )
    commands.add_parser("stop", help="end the service when its requests have ended")
    status = commands.add_parser("status", help="say what the service is doing")
    status.add_argument("--json", action="store_true", help="as one object")
    try:
        given = parser.parse_args(arguments)
    except SystemExit as stopped:
        return ExitCode.USAGE if stopped.code else ExitCode.SUCCESS
    if given.command == "start":
        wrong = start(given.idle)
        if wrong:
            print(f"tileiras-server: error: {wrong}", file=sys.stderr)
        return ExitCode.USAGE if wrong else ExitCode.SUCCESS
    if given.command == "stop":
        _stop_monitor()
        stop()
        return ExitCode.SUCCESS
    facts, watching = ask(protocol.STATUS), fsmonitor.facts()
    if given.json:
        print(json.dumps({**(facts or {}), **({"monitor": watching} if watching is not None else {})}))
    else:
        print((_shown(facts) if facts is not None else "no service\n") + _watching(watching), end="")
    return ExitCode.USAGE if facts is None and watching is None else ExitCode.SUCCESS


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())
