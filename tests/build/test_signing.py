"""Signed rows of a team's server, and rows with a false signature."""

import hashlib
import os
import sys

import pytest
from hostile_server import HostileServer
from project import Project, axpy, module

from tileiras.build.store import remote, signing
from tileiras.build.store.messages import action_result, output_file
from tileiras.build.store.remote import Remote, from_environment

pytest.importorskip("cryptography")


@pytest.fixture
def server():
    hostile_server = HostileServer()
    yield hostile_server
    hostile_server.close()


@pytest.fixture
def keys(tmp_path):
    """Two keys; the paths of the private ones."""
    for name in ("ci", "other"):
        signing.make_key(str(tmp_path / name), name)
    return [str(tmp_path / name) for name in ("ci", "other")]


def opened(server: HostileServer, said: list[str], own: str = "", accepted: str = "") -> Remote:
    environment = from_environment(said.append, {
        "TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_MODE": "read-write" if own else "",
        signing.SIGNING_KEY: own, signing.PUBLIC_KEYS: accepted,
    })  # fmt: skip
    assert environment is not None
    return environment


def put(server: HostileServer, own: str, **rows: bytes) -> None:
    items: list[str] = []
    writer = opened(server, items, own) if own else Remote(server.url, items.append, writes=True)
    for key, value in rows.items():
        writer.put(key, value)
    writer.close()
    assert items == [] and len(server.files) >= len(rows)


@pytest.mark.parametrize("inline", [True, False])
def test_a_reader_with_keys_accepts_rows_signed_by_them(server, keys, tmp_path, monkeypatch, inline):
    if not inline:
        monkeypatch.setattr(remote, "INLINE", 0)
    put(server, keys[0], one=b"first", two=b"second")
    (tmp_path / "team").write_text(f"# the team\n\n{(tmp_path / 'other.pub').read_text()}")
    both = os.pathsep.join((f"{keys[0]}.pub", str(tmp_path / "team")))
    for accepted in (f"{keys[0]}.pub", both, ""):
        items: list[str] = []
        result = opened(server, items, accepted=accepted).get_many(["one", "two", "three"])
        assert result == {"one": b"first", "two": b"second"} and items == []


def forged(message: bytes, change) -> bytes:
    file = output_file(message)
    return change(file.contents, file.signature)


def message(value: bytes, signature: bytes | None) -> bytes:
    return action_result(hashlib.sha256(value).hexdigest(), len(value), value, signature)


FORGERIES = {
    "no signature": lambda value, signature: message(value, None),
    "an empty signature": lambda value, signature: message(value, b""),
    "a signature of something else": lambda value, signature: message(b"evil", signature),
    "a damaged signature": lambda value, signature: message(value, signature[:-1] + bytes([signature[-1] ^ 1])),
    "a short signature": lambda value, signature: message(value, signature[:-1]),
    "a long signature": lambda value, signature: message(value, signature + b"\0"),
    "another key": lambda value, signature: message(value, b"\0" * 32 + signature[32:]),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_a_miss_with_one_line(server, keys, name):
    put(server, keys[0], one=b"first", two=b"second")
    server.change = lambda path, message: forged(message, FORGERIES[name])
    items: list[str] = []
    assert opened(server, items, accepted=f"{keys[0]}.pub").get_many(["one", "two"]) == {}
    assert len(items) == 1 and "is not believed" in items[0]


@pytest.mark.parametrize("own", ["", "other"])
def test_rows_of_another_writer_are_a_miss(server, keys, tmp_path, own):
    put(server, own and str(tmp_path / own), one=b"first")
    items: list[str] = []
    assert opened(server, items, accepted=f"{keys[0]}.pub").get("one") is None and len(items) == 1
    assert opened(server, items).get("one") == b"first"


def test_a_signed_row_is_invalid_under_another_key(server, keys):
    put(server, keys[0], one=b"first", two=b"second")
    server.files = dict(zip(server.files, reversed(server.files.values())))
    items: list[str] = []
    assert opened(server, items, accepted=f"{keys[0]}.pub").get_many(["one", "two"]) == {} and len(items) == 1
    assert opened(server, items).get_many(["one", "two"]) == {"one": b"second", "two": b"first"}


@pytest.mark.slow
def test_a_build_with_keys_takes_no_row_of_a_stranger(server, keys, tmp_path):
    trees = {name: Project(tmp_path / name) for name in ("own", "writer", "stranger", "reader", "last")}
    for tree in trees.values():
        tree.write("kernels/k.mlir", module(axpy("first")))
    trees["own"].scons()
    address = {"TILEIRAS_REMOTE_CACHE": server.url}
    reading = {**address, signing.PUBLIC_KEYS: f"{keys[0]}.pub"}
    trees["stranger"].scons(**address, TILEIRAS_REMOTE_MODE="read-write")
    build = trees["reader"].scons("-j2", **reading)
    assert len(build.stages) == 5 and build.errors.count("warning: ") == 1 and "not signed" in build.errors
    trees["writer"].scons(**address, TILEIRAS_REMOTE_MODE="read-write", TILEIRAS_CACHE_SIGNING_KEY=keys[0],
                          TILEIRAS_CACHE_MODE="refresh")  # fmt: skip
    build = trees["last"].scons("-j2", **reading)
    assert (build.stages, build.errors) == ([], "")
    assert len({tuple(tree.artifacts().items()) for tree in trees.values()}) == 1


def test_files_that_hold_no_key_are_refused(server, keys, tmp_path):
    (tmp_path / "none").write_text("# nothing\n")
    (tmp_path / "rsa").write_text("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==\n")
    for path in ("none", "rsa", "missing", "ci"):
        with pytest.raises(ValueError, match=signing.PUBLIC_KEYS):
            opened(server, [], accepted=str(tmp_path / path))
    for path in ("none", "missing", "ci.pub"):
        with pytest.raises(ValueError, match=signing.SIGNING_KEY):
            opened(server, [], own=str(tmp_path / path))


def test_without_the_library_keys_are_refused_not_skipped(server, keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for own, accepted in (("", f"{keys[0]}.pub"), (keys[0], "")):
        with pytest.raises(ValueError, match="'cryptography' \\(the 'signing' extra brings it\\)"):
            opened(server, [], own, accepted)
