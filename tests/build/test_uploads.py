"""Uploads to a server that holds its clients to the protocol: none is ever half there, and each ends in some build."""

import http.client
import os
import urllib.parse

import pytest
from project import CHECKOUT, Project, axpy, module
from strict_server import StrictServer

from tests.processes import until
from tileiras.build.store import remote
from tileiras.build.store.local import ArtifactStore


@pytest.fixture
def server():
    strict = StrictServer()
    yield strict
    strict.close()


@pytest.fixture
def writes(server, monkeypatch):
    monkeypatch.setenv("TILEIRAS_REMOTE_CACHE", server.url)
    monkeypatch.setenv("TILEIRAS_REMOTE_MODE", "read-write")
    monkeypatch.setattr(remote, "DRAIN_SECONDS", 0.2)


def test_the_server_refuses_other_requests(server):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc)
    for path, body in (("/cas/" + "a" * 64, b"x"), ("/ac/" + "a" * 64, b"x"), ("/cas/a", b"x"), ("/x", b"x")):
        connection.request("PUT", path, body)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 400
    assert len(server.wrong) == 4 and server.files == {}


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_a_build_is_on_the_server_at_its_end(server, tmp_path, jobs, inline):
    """Also of workers, whose last uploads a slow server has not answered when the build ends."""
    server.latency = 0.3
    writer = Project(tmp_path / "writer")
    writer.write("kernels/k.mlir", module(axpy("first")))
    environment = {"TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_MODE": "read-write"}
    if not inline:
        writer.write("sitecustomize.py", "import tileiras.build.store.remote as remote\nremote.INLINE = 0\n")
        environment["PYTHONPATH"] = os.pathsep.join([writer.folder, CHECKOUT])
    assert writer.scons(jobs, **environment).errors == ""
    kinds = [path.split("/")[1] for path in server.files]
    assert (kinds.count("ac"), kinds.count("cas")) == (5, 0 if inline else 5)
    assert server.wrong == [] and server.cut == 0
    reader = Project(tmp_path / "reader")
    reader.write("kernels/k.mlir", module(axpy("first")))
    done = reader.scons(jobs, TILEIRAS_REMOTE_CACHE=server.url)
    assert (done.stages, done.errors) == ([], "") and reader.artifacts() == writer.artifacts()


def test_uploads_that_did_not_end_are_reported_and_resumed(server, writes, tmp_path):
    items: list[str] = []
    server.latency = 1.0
    first = ArtifactStore(str(tmp_path / "store"), items.append)
    for number in range(3):
        first.publish(f"key {number}", b"value %d" % number)
    first.close()
    assert len(server.files) < 3
    (line,) = items
    assert line.startswith("remote cache ") and "did not end in time" in line
    server.latency = 0.0
    second = ArtifactStore(str(tmp_path / "store"), items.append)
    until(lambda: len(server.files) == 3, "the uploads are not resumed")
    second.close()
    assert server.wrong == [] and len(items) == 1
    # They are resumed once.
    assert ArtifactStore(str(tmp_path / "store"), items.append).remote.take_unfinished() == []


def test_readers_resume_nothing(server, writes, tmp_path, monkeypatch):
    server.latency = 1.0
    store = ArtifactStore(str(tmp_path / "store"), lambda line: None)
    store.publish("key", b"value")
    store.close()
    monkeypatch.setenv("TILEIRAS_REMOTE_MODE", "read-only")
    assert ArtifactStore(str(tmp_path / "store"), print).remote.take_unfinished() == []
    monkeypatch.setenv("TILEIRAS_REMOTE_MODE", "read-write")
    monkeypatch.setattr(remote.Remote, "put", lambda self, key, value: None)
    other = ArtifactStore(str(tmp_path / "store"), print)
    assert other.remote.take_unfinished() == [], "the store has not taken them over"


def test_a_body_that_is_cut_off_is_not_stored(server):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc)
    connection.putrequest("PUT", "/cas/" + "a" * 64)
    connection.putheader("Content-Length", "100")
    connection.endheaders()
    connection.send(b"half")
    connection.close()
    until(lambda: server.cut == 1, "the server has not noticed")
    assert server.files == {}
