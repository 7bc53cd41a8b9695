"""The build's side of the monitor: queries the files that may have changed below given folders.

If the monitor cannot answer, for any reason, the query returns None and the build checks the files itself.  The first
use starts the monitor for later builds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.build.watch.monitor import endpoint
from tileiras.processes import sockets
from tileiras.processes.sockets import ProtocolError
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from _socket import socket

PATIENCE = 0.5
"""Seconds for which a build waits for an answer."""


class Answer(NamedTuple):
    """The monitor's answer: a point in time after all events up to the request, and the changes before it."""

    epoch: str
    number: int
    changed: dict[str, int] | None
    """Real paths of the files that may have changed since the requested point, each with the number of its last change;
    None for all files."""


def ask(notes: str, roots: Iterable[tuple[str, Iterable[str]]], since: Mapping[str, int]) -> Answer | None:
    """Query the changes below `roots`, each given with the suffixes of its relevant files (empty: all files).

    `notes` is a folder on the same file system in which a file may be created.  `since` maps epochs to the numbers of
    earlier answers.  All paths are real paths.  Returns None if the changes are unknown.
    """
    cookie = f"{endpoint.COOKIE}{os.getpid()}-{os.urandom(8).hex()}"
    path = os.path.join(notes, cookie)
    try:
        identities = [[root, *_identity(root), list(suffixes)] for root, suffixes in roots]
        connection = sockets.connected(endpoint.name(), PATIENCE)
    except FileNotFoundError:
        start()
        return None
    except (OSError, ProtocolError):
        return None
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(path)  # its creation has queued an event nevertheless
        answer = say(
            connection, endpoint.ASK,
            {"notes": notes, "identity": _identity(notes), "cookie": cookie, "roots": identities, "since": dict(since)},
        )  # fmt: skip
        if answer.get("state") == endpoint.RETIRED:
            start()
        if answer.get("state") != endpoint.WATCHING:
            return None
        changed = answer["changed"]
        return Answer(str(answer["epoch"]), int(answer["number"]), None if changed is None else dict(changed))
    except (OSError, ProtocolError, KeyError, TypeError, ValueError):
        return None
    finally:
        connection.close()


def _identity(path: str) -> tuple[int, int]:
    state = os.stat(path)
    return state.st_dev, state.st_ino


def say(connection: socket, kind: bytes, value: Mapping[str, Any]) -> dict[str, Any]:
    """Send a message and return the answer; raises OSError and ProtocolError."""
    connection.sendall(endpoint.packed(kind, value))
    answered, answer = endpoint.received(connection.recv)
    if answered != endpoint.ANSWER:
        raise ProtocolError(f"no answer: {answered!r}")
    return answer


def facts(kind: bytes = endpoint.STATUS) -> dict[str, Any] | None:
    """Query the monitor's status; with STOP it then terminates.  None if no monitor answers."""
    try:
        connection = sockets.connected(endpoint.name(), PATIENCE)
    except OSError:
        return None
    try:
        return say(connection, kind, {})
    except (OSError, ProtocolError):
        return None
    finally:
        connection.close()


def start(idle: float = endpoint.IDLE) -> None:
    """Start the monitor in the background without waiting for it; failures are ignored silently."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(tileiras.__file__)))
    code = (
        f"import sys; sys.path.insert(0, {root!r})\nfrom tileiras.build.watch.monitor.process import main\n"
        f"sys.exit(main({idle!r}))"
    )
    try:
        sockets.start(code, ("-I", "-S"))
    except (OSError, AttributeError):
        pass
