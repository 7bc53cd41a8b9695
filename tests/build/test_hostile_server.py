"""A hostile server of a team: it costs a build bounded time, and changes neither its result nor the local store."""

import gzip
import hashlib
import json
import os
import shutil
import struct
import threading
from typing import NamedTuple

import pytest
from hostile_server import MEGABYTE, WIRE, HostileServer, parts, reply
from project import Project, axpy, module

from tileiras import inputs
from tileiras.build import discover, plan
from tileiras.build.run.execute import Session
from tileiras.build.scons.lookahead import look_ahead
from tileiras.build.store import maintenance, remote
from tileiras.build.store.local import ArtifactStore
from tileiras.build.store.messages import Damaged, action_result, output_file
from tileiras.build.store.remote import Remote
from tileiras.build.store.schema import INPUTS as INPUTS_ROW
from tileiras.build.store.schema import OWN_INPUTS
from tileiras.inputs import kinds
from tileiras.options import CompileOptions

SECONDS = "0.5"
"""The time limit of a request; enough for this machine and the server of a test."""

HANGS = 120.0

KERNEL = """\
import cuda.tile as ct

from helper import twice


@ct.kernel
def scale(a, b, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=twice(ct.load(a, index=(i,), shape=(T,))))


TILEIRAS_EXPORT = {"scale_128": (scale, "f32[?]", "f32[?]", 128)}
"""

HELPER = "def twice(x):\n    return x + x\n"


@pytest.fixture
def server():
    hostile_server = HostileServer()
    yield hostile_server
    hostile_server.close()


class Origin(NamedTuple):
    """A project, the artifacts of its build, and the files that a writer puts on a server."""

    folder: str
    expected: dict[str, bytes]
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A kernel as text and, where there is a front end, one as cuTile Python."""
    folder = tmp_path_factory.mktemp("origin")
    project = Project(folder / "tree")
    project.write("kernels/k.mlir", module(axpy("k")))
    if discover.has_front_end():
        project.write("kernels/scale.py", KERNEL)
        project.write("kernels/helper.py", HELPER)
    server = HostileServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.folder)
        writing = {"TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_MODE": "read-write"}
        expected = build(str(folder / "store"), patch, [], **writing)
        remove_builds()
    server.close()
    assert len(server.files) >= 2
    return Origin(project.folder, expected, server.files)


@pytest.fixture
def tree(origin, tmp_path, monkeypatch):
    shutil.copytree(origin.folder, tmp_path / "tree")
    monkeypatch.chdir(tmp_path / "tree")
    return Project(tmp_path / "tree")


@pytest.fixture
def expected(origin):
    """The artifacts of a build without a server."""
    return origin.expected


@pytest.fixture
def filled(server, origin):
    """The server with the files of a writer."""
    server.files = dict(origin.files)
    return server


def remove_builds() -> None:
    for name in os.listdir():
        if name.startswith("build"):
            shutil.rmtree(name)


def within(call, seconds: float = HANGS):
    """The result of a call; a call that hangs is a failure and not the end of the tests."""
    items: list = []

    def work() -> None:
        try:
            items.append((call(), None))
        except BaseException as error:
            items.append((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert items, "it hangs"
    value, error = items[0]
    if error is not None:
        raise error
    return value


def build(store: str, monkeypatch, said: list[str], **environment: str) -> dict[str, bytes]:
    """The artifacts of a build of the working directory up to tileaa, a fast part; the steps are those of the tool."""
    for name in ("CACHE", "MODE", "SECONDS"):
        monkeypatch.delenv(f"TILEIRAS_REMOTE_{name}", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    folder = f"build{len(os.listdir())}"
    opened = ArtifactStore(store, said.append)
    session = Session(opened)
    options = CompileOptions({"gpu-name": "sm_90"})
    steps = []
    for path in sorted(os.listdir("kernels")):
        if path != "helper.py" and not path.startswith("__"):
            name = f"kernels/{path}"
            entry = "k" if path == "k.mlir" else "scale_128"
            planned = plan.plan(os.path.abspath(name), name, name, f"{folder}/{path[0]}", options, "tileaa", [entry])
            steps += planned.steps
    result = {}
    look_ahead(session, steps)
    for step in steps:
        outcome = session.perform(step)
        assert outcome.error is None, outcome.error
        session.ran(step.outputs if not outcome.cached else ())
        for suffix, output in zip(step.suffixes, step.outputs):
            with open(output, "rb") as file:
                result[output.removeprefix(folder)] = file.read()
    opened.close()
    return result


def check(tree: Project, server: HostileServer, monkeypatch, expected: dict[str, bytes], **more: str) -> list[str]:
    """Build with the server, then without it from the store that it filled; return the warnings of the first."""
    result: list[str] = []
    address = {"TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_SECONDS": SECONDS, **more}
    assert within(lambda: build(tree.store, monkeypatch, result, **address)) == expected
    assert len(result) <= 2 and all(line.isprintable() and len(line) < 400 for line in result), result
    assert maintenance.verify(tree.store)["damaged"] == []
    later: list[str] = []
    assert within(lambda: build(tree.store, monkeypatch, later)) == expected and later == []
    return result


# ---- replies ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(10)
@pytest.mark.parametrize("keeps", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WIRE)
def test_an_invalid_reply_ends_and_is_a_miss(server, name, keeps):
    items: list[str] = []
    server.wire, server.keeps = WIRE[name], keeps
    reader = Remote(server.url, items.append)
    reader.request_seconds = float(SECONDS)
    keys = [f"key {number}" for number in range(3)]
    assert within(lambda: reader.get_many(keys)) == {} and within(lambda: reader.get("another")) is None
    assert len(items) <= 2 and all(line.isprintable() and len(line) < 400 for line in items)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [
    "a body that trickles", "interim replies without end", "chunks without end", "a length beyond memory",
    *(pytest.param(name, marks=pytest.mark.slow) for name in WIRE),
])  # fmt: skip
def test_a_build_is_right_with_any_replies(server, tree, expected, monkeypatch, name):
    server.wire = WIRE[name]
    assert check(tree, server, monkeypatch, expected)


@pytest.mark.parametrize("name", ["chunks that trickle", pytest.param("a body without end", marks=pytest.mark.slow)])
def test_scons_and_its_workers_do_without_such_a_server(server, tmp_path, name):
    trees = [Project(tmp_path / name) for name in ("own", "reader")]
    for tree in trees:
        for number in range(3):
            tree.write(f"kernels/k{number}.mlir", module(axpy(f"k{number}")))
    trees[0].scons()
    server.wire = WIRE[name]
    reading = {"TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_SECONDS": SECONDS}
    build = within(lambda: trees[1].scons("-j2", **reading, TILEIRAS_REMOTE_MODE="read-write"))
    assert len(build.stages) == 15 and len(build.errors.splitlines()) == 1, build.errors
    assert trees[0].artifacts() == trees[1].artifacts()
    trees[1].delete_build()
    assert trees[1].scons("-j2").stages == []
    refused = trees[1].scons(TILEIRAS_REMOTE_CACHE=server.url, TILEIRAS_REMOTE_SECONDS="soon", expect=2)
    assert "TILEIRAS_REMOTE_SECONDS=soon: accepted are seconds" in refused.errors


def test_replies_that_only_just_come_use_a_process_patience_up(server, monkeypatch):
    monkeypatch.setattr(remote, "SLOW_SECONDS", 0.05)
    monkeypatch.setattr(remote, "SHARE_SECONDS", 0.0)
    quick, slow = parts(reply(b"", b"404 N")), parts(0.3, reply(b"", b"404 N"))
    server.keeps = True
    items: list[str] = []
    reader = Remote(server.url, items.append)
    reader.request_seconds = 0.4
    for number in range(20):
        server.wire = slow if number % 3 else quick
        assert within(lambda: reader.get(f"key {number}")) is None
    assert len(items) == 1 and server.requests < 12


def test_requests_in_a_row_share_the_time_of_their_wave(server, monkeypatch):
    monkeypatch.setattr(remote, "SHARE_SECONDS", 0.001)
    server.wire, server.keeps = parts(0.3, reply(b"", b"404 N")), True
    items: list[str] = []
    reader = Remote(server.url, items.append)
    reader.request_seconds = 0.4
    within(lambda: reader.get_many([f"key {number}" for number in range(500)]))
    assert len(items) == 1 and server.requests < 250


def test_an_upload_has_one_time_as_well(server, monkeypatch):
    monkeypatch.setattr(remote, "DRAIN_SECONDS", 60.0)
    items: list[str] = []
    writer = Remote(server.url, items.append, writes=True)
    writer.request_seconds = float(SECONDS)
    monkeypatch.setattr(server, "_answer", lambda *_: b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000)
    writer.put("key", b"value")
    within(writer.close)
    assert len(items) == 1


def test_a_zipped_reply_stays_zipped(server):
    bomb = gzip.compress(MEGABYTE * 60)
    server.wire, server.keeps = parts(reply(bomb, b"200 OK", b"Content-Encoding: gzip")), True
    items: list[str] = []
    assert within(lambda: Remote(server.url, items.append).get("key")) is None
    assert len(items) == 1 and "is damaged" in items[0]


# ---- messages --------------------------------------------------------------------------------------------------------

MESSAGES = {
    "a number without end": b"\x12" + b"\xff" * 400_000,
    "a number of eleven bytes": b"\x12" + b"\xff" * 10 + b"\x01",
    "noise": os.urandom(4000),
    "a kind that there is not": b"\x17" * 100,
    "a length beyond the message": b"\x12\xff\xff\xff\xff\x0f",
    "a file that is a number": b"\x10\x05",
    "a million fields": b"\x10\x01" * 1_000_000,
    "a digest that is none": action_result("a" * 63, 1),
    "a size below zero": action_result("a" * 64, (1 << 64) - 5),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_an_invalid_message_is_damaged(name):
    try:
        result = within(lambda: output_file(MESSAGES[name]))
        assert result.size > remote.BLOB_LIMIT
    except Damaged:
        pass


def test_a_row_beside_its_message_has_the_size_that_this_says(server):
    value = b"x" * 1000
    digest = hashlib.sha256(value).hexdigest()
    for size, blob in ((1000, value), (999, value), (1001, value), (1 << 60, value), (1000, MEGABYTE)):
        server.files = {f"/ac/{remote._name('key')}": action_result(digest, size), f"/cas/{digest}": blob}
        items: list[str] = []
        result = within(lambda: Remote(server.url, items.append).get("key"))
        assert result == (value if (size, blob) == (1000, value) else None) and len(items) == (result is None)


# ---- rows ------------------------------------------------------------------------------------------------------------


def with_head(head: bytes, data: bytes) -> bytes:
    return struct.pack("<I", len(head)) + head + data


def changed(**fields):
    """A record with other fields in its head."""

    def change(head: dict, data: bytes) -> bytes:
        result = {name: value(head) if callable(value) else value for name, value in fields.items()}
        return with_head(json.dumps({**head, **result}).encode(), data)

    return change


def text(**fields):
    """A record whose head has values that no writer of JSON would write, as text."""

    def change(head: dict, data: bytes) -> bytes:
        rest = json.dumps({name: value for name, value in head.items() if name not in fields})[1:-1]
        result = ", ".join(f'"{name}": {value}' for name, value in fields.items())
        return with_head(f"{{{result}, {rest}}}".encode(), data)

    return change


def said(*row):
    return {"files": ["other.mlir"], "diagnostics": [list(row)]}


DEEP = "[" * 200_000 + "]" * 200_000

RECORDS = {
    "deep JSON": lambda head, data: with_head(b'{"artifacts":' + DEEP.encode() + b"}", data),
    "deep JSON in a field": text(seconds=DEEP),
    "a list": lambda head, data: with_head(b"[1, 2]", data),
    "nothing": lambda head, data: b"",
    "a length beyond it": lambda head, data: b"\xff\xff\xff\xff{}",
    "no JSON": lambda head, data: with_head(b"\xff{", data),
    "a field less": lambda head, data: with_head(b'{"artifacts": []}', b""),
    "a field twice": lambda head, data: with_head(json.dumps(head)[:-1].encode() + b', "seconds": 1}', data),
    "a time that is no number": text(seconds="NaN"),
    "a time without end": text(seconds="1e999"),
    "a time before": changed(seconds=-1),
    "a time that is true": changed(seconds=True),
    "a number of 5000 digits": text(seconds="9" * 5000),
    "artifacts by name": changed(artifacts={".ll": 1}),
    "artifacts of numbers": changed(artifacts=[[5, 0], [None, 0]]),
    "artifacts of three": changed(artifacts=lambda head: [[*row, 0] for row in head["artifacts"]]),
    "sizes below zero": changed(artifacts=lambda head: [*head["artifacts"], ["x", -10], ["y", 10]]),
    "sizes that are true": changed(artifacts=lambda head: [*head["artifacts"], ["x", False]]),
    "sizes beyond the record": changed(artifacts=lambda head: [*head["artifacts"], ["x", 1 << 62]]),
    "a suffix twice": changed(artifacts=lambda head: [*head["artifacts"], *([["x", 0]] * 2)]),
    "a suffix that goes up": changed(artifacts=lambda head: [*head["artifacts"], ["/../../../x", 0]]),
    "a suffix that is no text": text(artifacts='[["\\ud800", 0]]'),
    "no artifact": lambda head, data: changed(artifacts=[])(head, b""),
    "artifacts that are no text": lambda head, data: with_head(json.dumps(head).encode(), b"\xff" * len(data)),
    "diagnostics that are a list": changed(diagnostics=[1, 2, 3]),
    "diagnostics of something else": changed(diagnostics={"x": [1, {"y": None}]}),
    "no diagnostics": changed(diagnostics={}),
    "diagnostics that are null": changed(diagnostics={"files": None, "diagnostics": None}),
    "a diagnostic that is a word": changed(diagnostics={"files": [], "diagnostics": ["warning"]}),
    "a severity that there is not": changed(diagnostics=said("fatal", "-", "said", [])),
    "a place that there is not": changed(diagnostics=said("warning", "f9:1:1", "said", [])),
    "a place that is none": changed(diagnostics=said("warning", "somewhere", "said", [])),
    "a place of parentheses": changed(diagnostics=said("warning", "(" * 10_000 + ")" * 10_000, "said", [])),
    "a place in a scope": changed(diagnostics=said("warning", "f0:1:1/5", "said", [])),
    "a message that is a number": changed(diagnostics=said("warning", "-", 5, [])),
    "a message that is no text": text(diagnostics='{"files": [], "diagnostics": [["warning", "-", "\\ud800", []]]}'),
    "notes that are a word": changed(diagnostics=said("warning", "-", "said", "note")),
    "a remark that there is not": changed(diagnostics=said("remark", "-", "x", [], ["a", "b", "c", {}, "", ""])),
    "inputs that are numbers": changed(inputs=["/etc/passwd", 5, None]),
    "inputs with NUL": changed(inputs={"format": 1, "rows": [["file a\0b", "x", 1]]}),
    "an input on a device": changed(inputs={"format": 1, "rows": [["file /dev/zero", "x", 1]]}),
}
"""Error -> the record that a server makes of a correct one."""


def changing(change_record, change_files):
    def change(path: str, message: bytes) -> bytes:
        value = output_file(message).contents
        try:
            (length,) = struct.unpack_from("<I", value)
            head = json.loads(value[4 : 4 + length])
        except (ValueError, struct.error):
            result = change_files(value)
        else:
            result = change_record(head, value[4 + length :])
        return action_result(hashlib.sha256(result).hexdigest(), len(result), result)

    return change


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", RECORDS)
def test_an_invalid_record_is_a_miss(filled, tree, expected, monkeypatch, name):
    filled.change = changing(RECORDS[name], lambda value: value)
    if os.path.exists("kernels/scale.py"):
        os.unlink("kernels/scale.py")
        expected = {path: data for path, data in expected.items() if not path.startswith("/s")}
    assert check(tree, filled, monkeypatch, expected) or name == "an input on a device"


def test_a_server_that_is_sound_answers_for_all(filled, tree, expected, monkeypatch):
    ran = []
    perform = Session.perform
    monkeypatch.setattr(Session, "perform", lambda *given: ran.append(perform(*given)) or ran[-1])
    filled.change = changing(lambda head, data: with_head(json.dumps(head).encode(), data), lambda value: value)
    assert check(tree, filled, monkeypatch, expected) == [] and all(outcome.cached for outcome in ran)


def rows(*given: tuple) -> bytes:
    """Rows of inputs: title, state and size of each."""
    return json.dumps({"format": 1, "rows": [list(row) for row in given]}).encode()


INPUTS = {
    "a device": rows(("file /dev/zero", "x", 0)), "a device with a size": rows(("file /dev/zero", "x", 1_000_000)),
    "a pipe": rows(("file ../../pipe", "x", 0)), "a pipe in the tree": rows(("file pipe", "x", 5)),
    "a device in the tree": rows(("file zero", "x", 1_000_000)), "a folder": rows(("file .", "x", 0)),
    "another file": rows(("file /etc/passwd", "x", 1000)), "a file above": rows(("file ../../secret", "x", 6)),
    "a file of the home": rows(("file <home>/secret", "x", 6)), "a library": rows(("library /etc/passwd", "x", 1000)),
    "a way around": rows(("file link/../../secret", "x", 6)), "a larger file": rows(("file large", "x", 3)),
    "a module elsewhere": rows(("module secret in ../..", "x", None)), "nothing": b"",
    "all variables": rows(("variables", "x", None)), "a variable": rows(("variable SECRET", "x", None)),
    "a record": with_head(b"{}", b""), "a name of 5000 letters": rows(("file " + "a" * 5000, "x", 1)),
}  # fmt: skip
"""Error -> rows of inputs of a stage that have it."""


@pytest.mark.parametrize("row", [
    rows(("file ", "x", 5)), rows(("file helper.py", "x")), rows(("file a\0b", "x", 5)), rows(("disk sda", "x", 5)),
    rows(("file helper.py", "x", -1)), rows(("file helper.py", "x", True)), rows(("file helper.py", 5, 5)),
    rows(("module ../a", "x", None)), b"", b"[]",
    b"\xff\xfe", DEEP.encode(), b'{"format": 9, "rows": []}', b'{"format": 1, "rows": [], "more": 1}',
])  # fmt: skip
def test_malformed_rows_of_inputs_are_refused(row):
    with pytest.raises(ValueError):
        within(lambda: inputs.parse(row))


def test_too_many_rows_of_inputs_are_refused():
    million = rows(*((f"file {number}", "x", 1) for number in range(1_000_000)))
    with pytest.raises(ValueError):
        within(lambda: inputs.parse(million))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.skipif(not discover.has_front_end(), reason="cuTile Python is not installed")
def test_a_row_of_inputs_reads_allowed_files_only(filled, tree, expected, monkeypatch, tmp_path, name):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret.py").write_text("secret")
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo("kernels/pipe")
    os.symlink("/dev/zero", "kernels/zero")
    os.symlink(tmp_path / "elsewhere" / "deep", "kernels/link")
    tree.write("kernels/large", "x" * 5_000_000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SECRET", "secret")
    opened: list[str] = []
    read: list[str] = []
    digest, value = kinds.content_digest, kinds.value
    monkeypatch.setattr(kinds, "content_digest", lambda path: opened.append(os.path.realpath(path)) or digest(path))
    monkeypatch.setattr(kinds, "value", lambda text, base: read.append(text) or value(text, base))
    row = INPUTS[name]
    filled.change = changing(lambda head, data: with_head(json.dumps(head).encode(), data), lambda value: row)
    monkeypatch.setattr(os, "listdir", lambda path=".", real=os.listdir: [
        each for each in real(path) if each not in ("pipe", "zero", "link", "large")
    ])  # fmt: skip
    check(tree, filled, monkeypatch, expected)
    outside = [str(tmp_path / each) for each in ("secret", "secret.py", "pipe")]
    assert not {*outside, "/etc/passwd"} & {*opened}
    assert not any(path.startswith("/dev/") for path in opened) and "secret" not in read


def test_a_row_in_the_store_from_before_is_a_miss(tree, expected, monkeypatch, tmp_path):
    """The state that a build leaves if it trusts the server."""
    store = str(tmp_path / "poisoned")
    build(store, monkeypatch, [])
    opened = ArtifactStore(store, pytest.fail)
    keys = [key for shard in opened._writable() for key in shard]
    bad = [RECORDS["deep JSON"], RECORDS["diagnostics of something else"], RECORDS["artifacts of numbers"]]
    for number, key in enumerate(keys):
        value = opened.get(key)
        if key.endswith((INPUTS_ROW, OWN_INPUTS)):
            opened.put(key, b"[]")
        else:
            (length,) = struct.unpack_from("<I", value)
            opened.put(key, bad[number % 3](json.loads(value[4 : 4 + length]), value[4 + length :]))
    opened.close()
    warnings: list[str] = []
    assert within(lambda: build(store, monkeypatch, warnings)) == expected and len(warnings) == 1
    assert maintenance.verify(store)["damaged"] == []
    assert build(store, monkeypatch, []) == expected
