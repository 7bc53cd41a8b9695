"""Messages, and bytes that are not messages."""

import os
import socket

import pytest

from tileiras.processes.service import messages, protocol
from tileiras.processes.service.protocol import HEADER, ProtocolError


def test_fields_come_back():
    for fields in ((), (b"",), (b"a", b"", b"\0" * 300), (b"x" * 100_000,)):
        data = protocol.pack(protocol.RUN, *fields)
        kind, size = protocol.unpack_header(data[:HEADER])
        assert (kind, size, protocol.unpack(data[HEADER:])) == (protocol.RUN, len(data) - HEADER, list(fields))
    words = [b"", b"a b", b"c\nd", b""]
    assert protocol.unpack_words(protocol.pack_words(words)) == words


def test_an_invalid_message():
    with pytest.raises(ProtocolError):
        protocol.pack(protocol.RUN, bytes(protocol.MOST_BYTES))
    for header in (b"", b"TILER", b"tileR\0\0\0\0", b"TILER\xff\xff\xff\xff"):
        with pytest.raises(ProtocolError):
            protocol.unpack_header(header)
    good = protocol.pack(protocol.RUN, b"abc", b"de")[HEADER:]
    for cut in range(1, len(good)):
        if cut != 7:  # there the first field ends
            with pytest.raises(ProtocolError):
                protocol.unpack(good[:cut])


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
        assert messages.peer(left) == (os.getpid(), os.geteuid(), os.getegid())
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
            assert protocol.name_of(protocol.identity()) != protocol.name_of(first)
