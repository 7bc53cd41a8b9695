"""A forked child of the service: waits for commands, and answers one behind another.

What it has met of its parent's memory, and what its caches have, the next request finds there: for a small kernel that
is a third of the processor time.  It goes on as long as each request leaves it as it was (`unchanged`), and otherwise
ends: an error, words on a stream, a helper of LLVM, another limit, a user's module, memory that has grown.  What ends
it in the middle of a request costs that request alone, whose client does the work itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable
from typing import NoReturn

from tileiras.codegen import isolation
from tileiras.server import account, forked_memory, loaded, messages, protocol, request
from tileiras.server.links import Links
from tileiras.server.protocol import GREETING, MET, PREPARE, READY, REFUSED, RETIRED, RUN
from tileiras.server.unchanged import State

MOST_REQUESTS = 64
"""That one child answers: what llvmlite cannot free of each stays with it (`isolation.MAX_REQUESTS`)."""


def serve(
    links: Links, identity: bytes, state: loaded.Snapshot, memory: forked_memory.SharedPages,
    forget: Callable[[int], None],
) -> NoReturn:  # fmt: skip
    """Takes connections until a command leaves this process other than it was, or the zygote tells it to end.

    When the zygote is gone, `forget` is called with the descriptor of the service's directory, and this process ends.
    """
    before = State()
    looks = False
    taken = 0
    for _ in range(MOST_REQUESTS if before.lasts else 1):
        process, group, fields, descriptors, looks = _next_request(links, identity, state, memory, looks, forget)
        is_clean = request.answer(links, before, taken, process, group, fields, descriptors)
        try:
            if looks:
                messages.send(links.control, MET, memory.met())
                looks = False
            if not is_clean or not before.is_kept(links.numbers()):
                break
            taken = account.microseconds()
            messages.send(links.control, READY, taken.to_bytes(8, "little"))
        except (OSError, protocol.ProtocolError):
            break
    # The zygote counts the time of processes that were waited for.
    isolation.stop()
    os._exit(0)


def _next_request(
    links: Links, identity: bytes, state: loaded.Snapshot, memory: forked_memory.SharedPages, looks: bool,
    forget: Callable[[int], None],
) -> tuple[int, int, list[bytes], list[int], bool]:  # fmt: skip
    """The client's process and group, the fields and descriptors of its RUN, and whether the zygote wants to hear which
    pages that meets; `links` lead to the client.  What else clients ask goes to the zygote."""
    while True:
        connection, looks = _next(links, memory, looks, forget)
        with contextlib.suppress(EOFError, OSError, protocol.ProtocolError):
            process, user, group = messages.peer(connection)
            if user == os.geteuid():
                connection.settimeout(protocol.PATIENCE)
                connection.sendall(GREETING)
                # While the client makes its message; it was started before it connected.
                is_current = state.is_current()
                kind, fields, descriptors = messages.receive(connection)
                connection.settimeout(None)
                if not fields or fields[0] != identity:
                    messages.send(connection, REFUSED, b"another version or environment of Python")
                elif kind != RUN:
                    messages.send(links.control, kind, *fields[1:], descriptors=(connection.fileno(),))
                else:
                    messages.send(links.control, RUN, str(process).encode(), descriptors=(connection.fileno(),))
                    links.connection = connection
                    if not is_current:
                        request.leave(links, RETIRED)
                    return process, group, fields[1:], descriptors, looks
                for number in descriptors:
                    os.close(number)
        connection.close()


def _next(
    links: Links, memory: forked_memory.SharedPages, looks: bool, forget: Callable[[int], None]
) -> tuple[socket.socket, bool]:
    """The next connection, for which several children wait, and whether the zygote wants to hear which pages its
    request meets; meanwhile this process is prepared."""
    poll = select.poll()
    poll.register(links.listener, select.POLLIN)
    poll.register(links.control, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        # Before a connection is taken: it may say that this process is to take none.
        if links.control.fileno() in ready:
            try:
                kind, fields, _ = messages.receive(links.control)
            except (EOFError, OSError, protocol.ProtocolError):
                forget(links.directory)
                os._exit(0)
            if kind == RETIRED:
                os._exit(0)
            if kind == PREPARE:
                # Pages that were met ahead could not be told from those that the request meets.
                memory.ranges, looks = fields[0], not fields[0]
                memory.meet()
        elif links.listener.fileno() in ready:
            with contextlib.suppress(BlockingIOError):  # another child has it
                connection, _ = links.listener.accept()
                return connection, looks
