"""Messages, and bytes that are not messages."""

import os
import socket

import pytest

from tileiras.processes import messages, sockets
from tileiras.processes.service import protocol
from tileiras.processes.sockets import HEADER, ProtocolError


def test_fields_come_back():
    for fields in ((), (b"",), (b"a", b"", b"\0" * 300), (b"x" * 100_000,)):
        data = sockets.pack(protocol.RUN, *fields)
        kind, size = sockets.unpack_header(data[:HEADER])
        assert (kind, size, sockets.unpack(data[HEADER:])) == (protocol.RUN, len(data) - HEADER, list(fields))
    words = [b"", b"a b", b"c\nd", b""]
    assert sockets.unpack_words(sockets.pack_words(words)) == words


def test_an_invalid_message():
    with pytest.raises(ProtocolError):
        sockets.pack(protocol.RUN, bytes(sockets.MOST_BYTES))
    for header in (b"", b"TILER", b"tileR\0\0\0\0", b"TILER\xff\xff\xff\xff"):
        with pytest.raises(ProtocolError):
            sockets.unpack_header(header)
    good = sockets.pack(protocol.RUN, b"abc", b"de")[HEADER:]
    for cut in range(1, len(good)):
        if cut != 7:  # there the first field ends
            with pytest.raises(ProtocolError):
                sockets.unpack(good[:cut])


def test_descriptors_travel_beside_a_message():
    left, right = socket.socketpair()
    with left, right:
        reading, writing = os.pipe()
        messages.send(left, protocol.STATUS, b"x", descriptors=(writing,))
        os.close(writing)
        kind, fields, (received,) = messages.receive(right)
        assert (kind, fields) == (protocol.STATUS, [b"x"]) and not os.get_inheritable(received)
        os.write(received, b"through")
        os.close(received)
        assert os.read(reading, 100) == b"through"
        os.close(reading)
        assert sockets.peer(left) == (os.getpid(), os.geteuid(), os.getegid())
        left.close()
        with pytest.raises(EOFError):
            messages.receive(right)


def test_one_identity_for_one_python(monkeypatch):
    first = protocol.identity()
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", "elsewhere")
    assert protocol.identity() == first
    for name in ("PYTHONHASHSEED", "LC_ALL", "LANG", "LD_LIBRARY_PATH"):
        with monkeypatch.context() as changed:
            changed.setenv(name, "another")
            assert protocol.identity() != first
            assert sockets.name_of(protocol.identity()) != sockets.name_of(first)
