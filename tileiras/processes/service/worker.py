"""A forked child of the service: waits for commands and answers them one after another.

The next request reuses the pages that the child has touched and its caches: for a small kernel that saves a third of
the processor time.  The child continues while each request leaves it unchanged (`unchanged`) and otherwise exits: after
an error, output on a stream, a helper process of LLVM, a changed limit, a loaded module of the user's, or memory
growth.  If it dies during a request, only that request is affected: its client does the work itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable
from typing import NoReturn

from tileiras.processes import helper, messages, sockets
from tileiras.processes.service import account, loaded, protocol, request
from tileiras.processes.service.links import Links
from tileiras.processes.service.protocol import GREETING, READY, REFUSED, RETIRED, RUN
from tileiras.processes.service.unchanged import State

MOST_REQUESTS = 64
"""Requests that one child answers: each leaves memory that llvmlite cannot free (`helper.MAX_REQUESTS`)."""


def serve(
    links: Links, identity: bytes, state: loaded.Snapshot, forget: Callable[[int], None]
) -> NoReturn:
    """Accept connections until a command leaves this process changed, or the zygote retires it.

    If the zygote is gone, `forget` is called with the descriptor of the service's directory, and this process exits.
    """
    before = State()
    cpu_us = 0
    for _ in range(MOST_REQUESTS if before.lasts else 1):
        process, group, fields, descriptors = _next_request(links, identity, state, forget)
        is_clean = request.answer(links, before, cpu_us, process, group, fields, descriptors)
        try:
            if not is_clean or not before.is_kept(links.numbers()):
                break
            cpu_us = account.microseconds()
            messages.send(links.control, READY, cpu_us.to_bytes(8, "little"))
        except (OSError, sockets.ProtocolError):
            break
    # Wait for the helper: the zygote counts only the time of processes that were waited for.
    helper.stop()
    os._exit(0)


def _next_request(
    links: Links, identity: bytes, state: loaded.Snapshot, forget: Callable[[int], None]
) -> tuple[int, int, list[bytes], list[int]]:
    """Return the client's process and group, and the fields and descriptors of its RUN; `links` then has the client's
    connection.  Other messages of clients are forwarded to the zygote."""
    while True:
        connection = _next(links, forget)
        with contextlib.suppress(EOFError, OSError, sockets.ProtocolError):
            process, user, group = sockets.peer(connection)
            if user == os.geteuid():
                connection.settimeout(protocol.PATIENCE)
                connection.sendall(GREETING)
                # Overlaps with the client's preparation of its message; the client started before it connected.
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
                    return process, group, fields[1:], descriptors
                for number in descriptors:
                    os.close(number)
        connection.close()


def _next(links: Links, forget: Callable[[int], None]) -> socket.socket:
    """Accept the next connection, for which several children compete."""
    poll = select.poll()
    poll.register(links.listener, select.POLLIN)
    poll.register(links.control, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        # Must precede accept: the message may be RETIRED.
        if links.control.fileno() in ready:
            try:
                kind, _, _ = messages.receive(links.control)
            except (EOFError, OSError, sockets.ProtocolError):
                forget(links.directory)
                os._exit(0)
            if kind == RETIRED:
                os._exit(0)
        elif links.listener.fileno() in ready:
            with contextlib.suppress(BlockingIOError):  # another child has accepted it
                return links.listener.accept()[0]
