"""The remote tier: its messages, and builds against nginx."""

import contextlib
import hashlib
import http.client
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

import pytest
from delaying_server import DelayingServer
from project import CHECKOUT, Project, axpy, module

from tests.processes import until
from tileiras.build.store import remote
from tileiras.build.store.messages import Damaged, action_result, output_file
from tileiras.build.store.remote import DAMAGED, INLINE, Remote, from_environment

SERVER = shutil.which("nginx", path=os.environ["PATH"] + os.pathsep + "/usr/sbin")

CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
  log_format asked '$request_method $uri $status $http_authorization';
  access_log {folder}/access asked;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_max_body_size 100m;
  server {{
    listen 127.0.0.1:{port};
    location /team/ {{ root {folder}/root; dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """nginx with a configuration whose port is `{port}`; `store` is where below `folder` it keeps /ac and /cas."""

    def __init__(self, folder, configuration: str = CONFIGURATION, prefix: str = "/team", store: str = "root") -> None:
        self.folder = folder
        self._asked = 0
        self.store = folder / (store + prefix)
        self.url = f"http://127.0.0.1:{(port := free_port())}{prefix}"
        for path in (self.store, folder / "body", folder / "upload"):
            path.mkdir(parents=True)
        # nginx as root serves as a user of its own, who must reach the files.
        subprocess.run(["chmod", "-R", "a+rwX", str(folder)], check=True)
        user = "user root;\n" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(user + configuration.format(folder=folder, port=port))
        self.process = subprocess.Popen([SERVER, "-p", str(folder), "-c", "nginx.conf"], stderr=subprocess.PIPE)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def files(self, kind: str) -> dict[str, bytes]:
        folder = self.store / kind
        return {path.name: path.read_bytes() for path in folder.glob("*")} if folder.is_dir() else {}

    def requests(self) -> list[str]:
        """The requests to the server so far.  The server logs a request after it has answered: once a last request
        of our own is logged, so are all earlier ones."""
        self._asked += 1
        last = f"/asked-{self._asked}"
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(urllib.parse.urljoin(self.url, last)).close()
        lines = until(lambda: last in (text := (self.folder / "access").read_text()) and text.splitlines(), last)
        return [line for line in lines if "/asked-" not in line]


@pytest.fixture
def serve(tmp_path):
    """Start servers that end with the test; its parameters are those of `Server` after the folder."""
    if SERVER is None:
        if os.environ.get("CI"):
            pytest.fail("nginx is to be installed where CI runs")
        pytest.skip("no nginx")
    started: list[Server] = []

    def start(*arguments, **keywords) -> Server:
        started.append(Server(tmp_path / f"server{len(started)}", *arguments, **keywords))
        return started[-1]

    yield start
    for item in started:
        item.process.terminate()
        item.process.wait()


@pytest.fixture
def server(serve):
    return serve()


def project(folder, server: Server, **environment: str) -> Project:
    result = Project(folder)
    result.write("kernels/k.mlir", module(axpy("first")))
    return result


# ---- messages --------------------------------------------------------------------------------------------------------


def published_message():
    """ActionResult of build/bazel/remote/execution/v2/remote_execution.proto, as BuildGrid carries it."""
    try:
        from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2
    except ImportError:
        if "CI" in os.environ:
            raise
        pytest.skip("the published messages come with the package buildgrid")
    return remote_execution_pb2.ActionResult


def declared_message():
    """The fields of the same message that are used here, for machines without that package."""
    protobuf = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    file = protobuf.FileDescriptorProto(name="re.proto", package="build.bazel.remote.execution.v2", syntax="proto3")
    field = protobuf.FieldDescriptorProto
    for name, fields in {
        "Digest": [("hash", 1, field.TYPE_STRING, ""), ("size_bytes", 2, field.TYPE_INT64, "")],
        "OutputFile": [("path", 1, field.TYPE_STRING, ""), ("digest", 2, field.TYPE_MESSAGE, "Digest"),
                       ("is_executable", 4, field.TYPE_BOOL, ""), ("contents", 5, field.TYPE_BYTES, "")],
        "ActionResult": [("output_files", 2, field.TYPE_MESSAGE, "OutputFile"), ("exit_code", 4, field.TYPE_INT32, ""),
                         ("stdout_raw", 5, field.TYPE_BYTES, "")],
    }.items():  # fmt: skip
        message = file.message_type.add(name=name)
        for spelled, number, kind, of in fields:
            label = field.LABEL_REPEATED if spelled == "output_files" else field.LABEL_OPTIONAL
            result = message.field.add(name=spelled, number=number, type=kind, label=label)
            if of:
                result.type_name = f".{file.package}.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.ActionResult"))


@pytest.mark.parametrize("message_class", [published_message, declared_message])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 300_000, 5 << 32])
def test_a_message_equals_the_published_protocol(size, message_class):
    digest = hashlib.sha256(b"value").hexdigest()
    assert output_file(action_result(digest, size)) == (digest, size, None, None)
    message = message_class()
    read = message.FromString(action_result(digest, size))
    (file,) = read.output_files
    assert (file.path, file.digest.hash, file.digest.size_bytes, read.exit_code) == ("record", digest, size, 0)
    # Fields added by another client are skipped.
    read.stdout_raw, read.exit_code, file.is_executable, file.contents = b"said", 3, True, b"x" * 300
    assert output_file(read.SerializeToString()) == (digest, size, b"x" * 300, None)
    whole = message.FromString(action_result(digest, 300, b"y" * 300))
    assert whole.output_files[0].contents == b"y" * 300 and whole.output_files[0].digest.hash == digest
    signed = message.FromString(action_result(digest, 300, b"y" * 300, b"signature"))
    assert [file.path for file in signed.output_files] == ["record", "signature"]
    assert output_file(signed.SerializeToString()) == (digest, 300, b"y" * 300, b"signature")


@pytest.mark.parametrize("message", [b"", b"\x12", b"\x12\x05ab", b"\xff" * 20, action_result("a" * 63, 1), b"<html>",
                                     action_result("Z" * 64, 1), b"\x10\x05"])  # fmt: skip
def test_an_invalid_message_is_reported(message):
    with pytest.raises(Damaged):
        output_file(message)


def test_invalid_addresses_and_modes_are_refused():
    assert from_environment(print, {}) is None
    for environment in ({"TILEIRAS_REMOTE_CACHE": "ftp://a"}, {"TILEIRAS_REMOTE_CACHE": "cache:80"},
                        {"TILEIRAS_REMOTE_CACHE": "http://a", "TILEIRAS_REMOTE_MODE": "write"}):  # fmt: skip
        with pytest.raises(ValueError, match="accepted"):
            from_environment(print, environment)


# ---- a real server ---------------------------------------------------------------------------------------------------


def test_rows_are_read_on_another_machine(server, tmp_path):
    items: list[str] = []
    writer = Remote(server.url, items.append, writes=True, token="secret")
    writer.put("key", b"value" * 1000)
    writer.close()
    digest = hashlib.sha256(b"value" * 1000).hexdigest()
    assert server.files("cas") == {}
    assert list(server.files("ac").values()) == [action_result(digest, 5000, b"value" * 1000)]
    reader = Remote(server.url, items.append)
    assert reader.get("key") == b"value" * 1000 and reader.get("other key") is None
    reader.put("third", b"never sent")
    reader.close()
    assert len(server.files("ac")) == 1 and items == []
    assert server.requests()[0].endswith(" 201 Bearer secret")
    assert [line.split()[0] for line in server.requests()] == ["PUT", "GET", "GET"]


def test_many_bytes_lie_beside_their_message(server):
    items: list[str] = []
    writer = Remote(server.url, items.append, writes=True)
    large = os.urandom(INLINE + 1)
    writer.put("large", large)
    writer.put("small", large[:-1])
    writer.close()
    digest = hashlib.sha256(large).hexdigest()
    assert server.files("cas") == {digest: large}
    reader = Remote(server.url, items.append)
    assert reader.get_many(["none", "large", "small"]) == {"large": large, "small": large[:-1]} and items == []


def test_altered_bytes_are_refused_and_missing_bytes_are_a_miss(server, monkeypatch):
    monkeypatch.setattr(remote, "INLINE", 0)
    items: list[str] = []
    both = Remote(server.url, items.append, writes=True)
    both.put("key", b"value")
    both.close()
    (path,) = (server.folder / "root" / "team" / "cas").glob("*")
    path.unlink()
    assert both.get("key") is None and items == []
    path.write_bytes(b"Value")
    assert both.get("key") is None
    assert len(items) == 1 and items[0].endswith(
        " is damaged; artifacts that it cannot provide are rebuilt and replaced"
    )
    assert both.get("key") is None and len(items) == 1
    # The server is still used for all other keys, and for a value that replaces the damaged one.
    both.put("other key", b"other value")
    both.put("key", b"value")
    both.close()
    assert (both.get("key"), both.get("other key"), len(items)) == (b"value", b"other value", 1)


def damage(server: Server, kind: str, how: str) -> int:
    """Damage every file of a kind on the server; how many there are."""
    files = list((server.folder / "root" / "team" / kind).glob("*"))
    for path in files:
        data = path.read_bytes()
        damaged = {"flipped": bytes([*data[:-1], data[-1] ^ 1]), "cut": data[:-1], "emptied": b""}[how]
        path.write_bytes(damaged)
    return len(files)


@pytest.mark.parametrize("kind, how, jobs", [
    pytest.param("cas", "flipped", "-j2", marks=pytest.mark.slow),
    ("cas", "cut", "-j1"),
    pytest.param("ac", "cut", "-j1", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_writer_replaces_damaged_rows_on_the_server(server, tmp_path, kind, how, jobs):
    writing = {"TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_MODE": "read-write"}
    first = project(tmp_path / "first", server)
    if kind == "cas":
        first.write("sitecustomize.py", "import tileiras.build.store.remote as remote\nremote.INLINE = 0\n")
        writing["PYTHONPATH"] = os.pathsep.join([first.folder, CHECKOUT])
    first.scons(**writing)
    whole = server.files(kind)
    assert damage(server, kind, how) == 5 and server.files(kind) != whole
    # A reader makes it for itself, and leaves the server as it is.
    reader = project(tmp_path / "reader", server)
    build = reader.scons(jobs, TILEIRAS_REMOTE_CACHE=server.url)
    assert len(build.stages) == 5 and reader.artifacts() == first.artifacts()
    (line,) = build.errors.splitlines()
    assert line.startswith("warning: remote cache ") and line.endswith("; artifacts that it cannot provide are rebuilt")
    assert server.files(kind) != whole
    writer = project(tmp_path / "writer", server)
    build = writer.scons(jobs, **writing)
    assert len(build.stages) == 5 and build.errors.endswith("cannot provide are rebuilt and replaced\n")
    assert len(server.files("ac")) == 5
    last = project(tmp_path / "last", server)
    build = last.scons(jobs, TILEIRAS_REMOTE_CACHE=server.url)
    assert (build.stages, build.errors) == ([], "") and last.artifacts() == first.artifacts()


def test_a_server_that_gives_nothing_sound_is_turned_off(server):
    items: list[str] = []
    writer = Remote(server.url, items.append, writes=True)
    for number in range(DAMAGED + 1):
        writer.put(f"key {number}", b"value")
    writer.close()
    damage(server, "ac", "emptied")
    reader = Remote(server.url, items.append)
    for number in range(DAMAGED + 1):
        assert reader.get(f"key {number}") is None
    assert len(items) == 2 and items[1].endswith("replies; done without for this build")
    assert reader.failure is not None
    # A server that answers that it lacks a key is one of this kind, and is still used.
    patient = Remote(server.url, items.append)
    assert patient.get("no such key") is None
    for number in range(DAMAGED + 1):
        assert patient.get(f"key {number}") is None
    assert patient.failure is None and len(items) == 3


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [pytest.param("-j1", marks=pytest.mark.slow), "-j2"])
def test_without_a_store_here_the_server_is_still_asked(server, tmp_path, jobs):
    for name, expected in (("writer", 5), ("reader", 0)):
        tree = project(tmp_path / name, server)
        tree.store = "off"
        build = tree.scons(jobs, TILEIRAS_REMOTE_CACHE=server.url, TILEIRAS_REMOTE_MODE="read-write")
        assert (len(build.stages), len(build.cached), build.errors) == (expected, 5 - expected, "")
    count = len(server.requests())
    for arguments, environment in ((["--cache-disable"], {}), ([], {"TILEIRAS_CACHE_MODE": "off"})):
        tree.delete_build()
        assert len(tree.scons(*arguments, TILEIRAS_REMOTE_CACHE=server.url, **environment).stages) == 5
    assert len(server.requests()) == count


def test_the_library_asks_the_server_without_a_store_here(server, monkeypatch):
    from tileiras.build import library

    for name, value in (("CACHE_DIR", "off"), ("REMOTE_CACHE", server.url), ("REMOTE_MODE", "read-write")):
        monkeypatch.setenv(f"TILEIRAS_{name}", value)
    text = module(axpy("first"))
    items = []
    for _ in range(2):
        monkeypatch.setattr(library, "_sessions", {})
        items.append(library.compile(text, gpu_name="sm_90").data)
        library.default_session().store.close()
    assert items[0] == items[1] and len(server.files("ac")) == 1
    assert [line.split()[0] for line in server.requests()] == ["GET", "PUT", "GET"]


@pytest.mark.parametrize("jobs", [pytest.param("-j1", marks=pytest.mark.slow), "-j2"])
def test_a_team_builds_once(server, tmp_path, jobs):
    ci = project(tmp_path / "ci", server)
    ci.scons(jobs, TILEIRAS_REMOTE_CACHE=server.url, TILEIRAS_REMOTE_MODE="read-write")
    # The build's end has waited for the uploads of its workers.
    assert len(server.files("ac")) == 5
    developer = project(tmp_path / "developer", server)
    build = developer.scons(jobs, TILEIRAS_REMOTE_CACHE=server.url)
    assert (build.stages, build.errors) == ([], "")
    assert developer.artifacts() == ci.artifacts()
    # From now on it is in the developer's own store.
    developer.delete_build()
    assert developer.scons(jobs).stages == []


# ---- bad servers -----------------------------------------------------------------------------------------------------


def documented_configuration() -> str:
    """`examples/remote_cache/nginx.conf` with `{port}` for its port."""
    with open(os.path.join(CHECKOUT, "examples", "remote_cache", "nginx.conf"), encoding="utf-8") as file:
        text = file.read()
    assert "listen 8080;" in text
    return text.replace("{", "{{").replace("}", "}}").replace("listen 8080;", "listen 127.0.0.1:{port};")


def test_the_documented_configuration_serves_sccache(serve):
    """The requests that sccache 0.16.0 makes for a file that it compiles twice."""
    server = serve(documented_configuration(), prefix="", store="store")
    token = {"Authorization": "Bearer change-this-token"}
    path = "/sccache/0/7/d/07d4f771"

    def status(method: str, path: str, body: bytes = b"", headers: dict[str, str] = {}) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*server.url.removeprefix("http://").split(":"), timeout=10)
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()

    assert status("GET", path)[0] == 404
    for method in ("PUT", "PROPFIND"):
        assert status(method, path, b"object")[0] == 403
    code, folder = status("PROPFIND", "/sccache/0/7/d/", headers=token)
    assert code == 207
    (response,) = xml.etree.ElementTree.fromstring(folder)
    assert response.find("{DAV:}href").text == "/sccache/0/7/d/"
    assert response.find(".//{DAV:}resourcetype/{DAV:}collection") is not None
    assert status("PUT", path, b"object", token)[0] == 201
    assert status("GET", path) == (200, b"object")
    assert server.files("ac") == server.files("cas") == {}


@pytest.mark.slow
def test_the_documented_configuration_requires_a_token_to_write(serve, tmp_path):
    server = serve(documented_configuration(), prefix="", store="store")
    writer = {"TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_MODE": "read-write"}
    one, two, three = (project(tmp_path / name, server) for name in ("one", "two", "three"))
    refused = one.scons(**writer, TILEIRAS_REMOTE_TOKEN="guessed")
    assert server.files("ac") == server.files("cas") == {} and "403" in refused.errors
    two.scons(**writer, TILEIRAS_REMOTE_TOKEN="change-this-token")
    assert server.files("ac")
    reader = three.scons(TILEIRAS_REMOTE_CACHE=server.url)
    assert reader.stages == [] and reader.errors == "" and three.artifacts() == two.artifacts()


def test_a_server_that_is_not_there_costs_one_warning(tmp_path):
    tree = project(tmp_path, None)
    build = tree.scons(TILEIRAS_REMOTE_CACHE=f"http://127.0.0.1:{free_port()}/x", TILEIRAS_REMOTE_MODE="read-write")
    assert len(build.stages) == 5
    (line,) = build.errors.splitlines()
    assert line.startswith("warning: remote cache http://127.0.0.1:") and line.endswith("done without for this build")


def test_a_server_that_does_not_answer_costs_one_warning(monkeypatch):
    monkeypatch.setattr(remote, "READ_SECONDS", 0.2)
    items: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        both = Remote(f"http://127.0.0.1:{silent.getsockname()[1]}", items.append, writes=True)
        start = time.monotonic()
        assert both.get("key") is None and both.get("key") is None
        assert time.monotonic() - start < 2
        both.put("key", b"value")
        both.close()
    assert len(items) == 1 and "timed out" in items[0]


def test_a_server_with_three_slow_answers_is_skipped(monkeypatch):
    monkeypatch.setattr(remote, "SLOW_SECONDS", 0.05)
    server = DelayingServer(0.1)
    items: list[str] = []
    reader = Remote(server.url, items.append)
    assert reader.get("key") is None and reader.get_many(["key", "other key"]) == {} and items == []
    server.latency = 0.0
    assert reader.get("key") is None  # not slow: it begins anew
    server.latency = 0.1
    for number in range(5):
        assert reader.get(f"key {number}") is None
    server.close()
    assert items == [f"remote cache {server.url}: the last 3 replies took more than 0.05 s each; "
                    "done without for this build"]  # fmt: skip
    assert len(server.requests) == 7


def test_other_processes_skip_an_absent_server_for_a_while(tmp_path, monkeypatch):
    items: list[str] = []
    notes = str(tmp_path / "server.json")
    url = f"http://127.0.0.1:{free_port()}"

    def another(address: str = url) -> Remote:
        items.clear()
        result = Remote(address, items.append, writes=True, notes=notes)
        result.get("key")
        result.put("key", b"value")
        return result

    assert "ago" not in (another().failure or "ago")
    assert "ago, and it is asked again in" in another().failure and len(items) == 1
    # Another server is asked; so is this one later, even if the clock is set back in between.
    assert "ago" not in another(url + "/prefix").failure
    another()
    monkeypatch.setattr(remote, "REST_SECONDS", 0.0)
    assert "ago" not in another().failure
    monkeypatch.undo()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 1000)
    assert "ago" not in another().failure
    # A refusal can be corrected by the user, and a malformed note is ignored.
    for text in ("", "[]", '{"server": 1}', '{"server": "%s", "failure": 1, "time": "x"}' % url):
        with open(notes, "w") as file:
            file.write(text)
        assert "ago" not in another().failure


IMPATIENT = "import tileiras.build.store.remote as remote\nremote.READ_SECONDS = 1.0\n"


@pytest.mark.parametrize("jobs", [pytest.param("-j1", marks=pytest.mark.slow), "-j2"])
def test_a_build_waits_once_for_a_server_that_does_not_answer(tmp_path, jobs):
    tree = project(tmp_path, None)
    tree.write("kernels/other.mlir", module(axpy("second"), axpy("third", operation="mulf")))
    tree.write("sitecustomize.py", IMPATIENT)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        build = tree.scons(
            jobs, TILEIRAS_REMOTE_CACHE=url, TILEIRAS_REMOTE_MODE="read-write",
            PYTHONPATH=os.pathsep.join([tree.folder, CHECKOUT]),
        )  # fmt: skip
        connections = count_connections(silent)
    assert build.errors == f"warning: remote cache {url}: timed out; done without for this build\n"
    assert build.cached == [] and len(build.stages) == 14
    # Only lookups that were under way at the same time have connected, and none afterwards.
    assert 1 <= connections <= int(jobs[2])


def test_uploads_block_no_build(monkeypatch):
    monkeypatch.setattr(remote, "DRAIN_SECONDS", 0.3)
    items: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        writer = Remote(f"http://127.0.0.1:{silent.getsockname()[1]}", items.append, writes=True)
        for number in range(2 * remote.WAITING):
            writer.put(f"key {number}", b"value" * 1000)
        writer.close()
        # The server never answers: a wait for an upload would last until its failure.
        assert writer._uploads.unfinished_tasks and writer.failure is None and items == []


def test_the_end_waits_as_long_as_uploads_end(monkeypatch):
    monkeypatch.setattr(remote, "DRAIN_SECONDS", 1.5)
    server = DelayingServer(0.3)
    items: list[str] = []
    for limit, whole in ((60.0, True), (1.0, False)):
        monkeypatch.setattr(remote, "DRAIN_LIMIT", limit)
        server.files.clear()
        writer = Remote(server.url, items.append, writes=True)
        for number in range(10):
            writer.put(f"key {number}", b"value")
        writer.close()
        assert (len(server.files) == 10) == whole and items == []
    server.close()


def test_an_upload_that_is_cut_off_leaves_nothing(server):
    port = int(server.url.split(":")[2].split("/")[0])
    for kind in ("ac", "cas"):
        with socket.create_connection(("127.0.0.1", port)) as writer:
            writer.sendall(f"PUT /team/{kind}/{'a' * 64} HTTP/1.1\r\nHost: a\r\n".encode())
            writer.sendall(b"Content-Length: 5000000\r\n\r\n" + b"x" * 4_000_000)
    assert until(lambda: [line for line in server.requests() if " 400 " in line][1:], "both have ended")
    assert server.files("ac") == server.files("cas") == {}


def count_connections(listening: socket.socket) -> int:
    """The number of connections to a socket since it began to listen."""
    listening.setblocking(False)
    connections = 0
    while True:
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return connections
        connections += 1


def test_a_connection_that_was_closed_meanwhile_is_made_again(tmp_path):
    """A server that answers one request a connection, as after its keep-alive time."""
    digest = hashlib.sha256(b"v").hexdigest()
    bodies = [action_result(digest, 1), b"v"] * 2
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for body in bodies:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(10000)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        items: list[str] = []
        reader = Remote(f"http://127.0.0.1:{listening.getsockname()[1]}", items.append)
        assert [reader.get("key"), reader.get("key")] == [b"v", b"v"]
        assert items == []
        thread.join(5)
