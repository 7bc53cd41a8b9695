"""A build's side of the monitor: what may have changed below some folders.

In every case in which nobody can say, the build is told nothing, and looks at the files itself.  The first use starts
the monitor, for the builds that follow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tileiras import local_socket
from tileiras.fsmonitor import endpoint
from tileiras.local_socket import ProtocolError
from tileiras.named_tuple import NamedTuple

if TYPE_CHECKING:
    from _socket import socket

PATIENCE = 0.5
"""Seconds that a build waits for an answer."""


class Answer(NamedTuple):
    """What a monitor says of a moment, which every event up to the request lies before."""

    epoch: str
    number: int
    changed: dict[str, int] | None
    """Files that may have changed since the moment that was asked about, by real path, each with the number of its last
    change; None for all."""


def is_wanted() -> bool:
    """Whether the user wants services, and this system has what they need."""
    return os.environ.get("TILEIRAS_SERVER") == "auto" and local_socket.supported()


def ask(notes: str, roots: Iterable[tuple[str, Iterable[str]]], since: Mapping[str, int]) -> Answer | None:
    """What changed below `roots`, each with the suffixes of the files that matter, none for all.

    `notes` is a folder on the same file system in which a file may be made.  `since` has the numbers of earlier
    answers, by epoch.  All paths are real ones.  None where nobody can say.
    """
    cookie = f"{endpoint.COOKIE}{os.getpid()}-{os.urandom(8).hex()}"
    path = os.path.join(notes, cookie)
    try:
        known = [[root, *_identity(root), list(suffixes)] for root, suffixes in roots]
        connection = connected()
    except FileNotFoundError:
        start()
        return None
    except (OSError, ProtocolError):
        return None
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(path)  # of which there is an event all the same
        answer = say(
            connection, endpoint.ASK,
            {"notes": notes, "identity": _identity(notes), "cookie": cookie, "roots": known, "since": dict(since)},
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


def connected() -> socket:
    """A connection to the monitor of this user.

    Raises FileNotFoundError where there is none, and OSError where it cannot be trusted or does not answer.
    """
    import _socket

    directory = local_socket.open_directory()
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(PATIENCE)
        connection.connect(local_socket.address(directory, endpoint.name()))
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if local_socket.user_of(peer) != os.geteuid():
            raise PermissionError("the monitor is another user's")
        return connection
    except ConnectionRefusedError:
        connection.close()
        raise FileNotFoundError("a monitor that is gone") from None
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(directory)


def say(connection: socket, kind: bytes, value: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a message; raises OSError and ProtocolError."""
    connection.sendall(endpoint.packed(kind, value))
    answered, answer = endpoint.received(connection.recv)
    if answered != endpoint.ANSWER:
        raise ProtocolError(f"no answer: {answered!r}")
    return answer


def facts(kind: bytes = endpoint.STATUS) -> dict[str, Any] | None:
    """What the monitor says of itself, which STOP ends after that; None where there is none."""
    try:
        connection = connected()
    except OSError:
        return None
    try:
        return say(connection, kind, {})
    except (OSError, ProtocolError):
        return None
    finally:
        connection.close()


def start(idle: float = endpoint.IDLE) -> None:
    """Starts the monitor beside this process, which does not wait for it; whatever is wrong, nobody is told."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = (
        f"import sys; sys.path.insert(0, {root!r})\nfrom tileiras.fsmonitor.process import main\n"
        f"sys.exit(main({idle!r}))"
    )
    actions: list[tuple] = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        os.posix_spawn(
            sys.executable, [sys.executable, "-I", "-S", "-c", code], os.environ, file_actions=actions, setsid=True,
            setsigmask=(), setsigdef=[number for number in range(1, 32) if number not in (9, 19)],
        )  # fmt: skip
    except (OSError, AttributeError):
        pass
