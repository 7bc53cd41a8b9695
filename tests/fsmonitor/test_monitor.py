"""A monitor names every file that has changed, by any means, or reports that it cannot tell."""

import mmap
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from watched_tree import Watched, complete, root

from tileiras.build.watch.monitor.monitor import Monitor, Root, Unwatchable


@pytest.fixture
def tree(tmp_path):
    watched = Watched(tmp_path)
    yield watched
    watched.monitor.close()


def outside(path):
    """A name outside the watched folders."""
    return next(folder for folder in path.parents if folder.name == "tree").parent / "outside"


def replace(path, text: str) -> None:
    new = outside(path)
    new.write_text(text)
    os.replace(new, path)


def test_nothing_has_changed_where_files_are_only_read(tree):
    assert tree.changed() == set()
    for _ in range(3):
        (tree / "a.mlir").read_bytes()
        os.listdir(tree / "sub")
        with open(tree / "b.mlir", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
            assert tree.changed() == set()
    assert tree.changed() == set()


@pytest.mark.parametrize("edit", [
    lambda path: path.write_text("else"),
    lambda path: replace(path, "else"),
    lambda path: os.truncate(path, 2),
    lambda path: os.utime(path, ns=(1, 1)),
    lambda path: path.chmod(0o600),
    lambda path: path.unlink(),
    lambda path: os.rename(path, outside(path)),
], ids=["write", "replace", "truncate", "times", "rights", "remove", "move away"])  # fmt: skip
def test_every_change_of_a_file_is_reported_once(tree, edit):
    edit(tree / "sub/c.mlir")
    assert tree.changed() == {"sub/c.mlir"}
    assert tree.changed() == set()


def test_a_change_whose_times_are_set_back_is_reported(tree):
    path = tree / "a.mlir"
    state = os.stat(path)
    path.write_text("b.mlir")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert tree.changed() == {"a.mlir"}


def test_new_and_renamed_files_are_reported_and_watched(tree):
    (tree / "d.mlir").write_text("new")
    os.rename(tree / "a.mlir", tree / "sub/e.mlir")
    assert tree.changed() == {"d.mlir", "a.mlir", "sub/e.mlir"}
    (tree / "d.mlir").write_text("newer")
    (tree / "sub/e.mlir").write_text("other")
    assert tree.changed() == {"d.mlir", "sub/e.mlir"}
    os.replace(tree / "d.mlir", tree / "b.mlir")
    assert tree.changed() == {"d.mlir", "b.mlir"}
    (tree / "b.mlir").write_text("again")
    assert tree.changed() == {"b.mlir"}


def test_of_other_files_the_names_are_reported(tree):
    (tree / "sub/notes.txt").write_text("else")
    assert tree.changed() <= {"sub/notes.txt"}
    (tree / "SConstruct").write_text("")
    assert tree.changed() == {"SConstruct"}


def test_files_open_for_writing_are_reported_until_closed(tree):
    with open(tree / "a.mlir", "r+b") as file:
        assert tree.changed() == {"a.mlir"}
        assert tree.changed() == {"a.mlir"}
        file.write(b"else")
        file.flush()
        assert tree.changed() == {"a.mlir"}
    assert tree.changed() == {"a.mlir"}
    assert tree.changed() == set()


def test_writes_to_a_mapping_are_reported(tree):
    with open(tree / "a.mlir", "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    # No process has a descriptor now.
    with open(tree / "a.mlir", "rb"):
        assert tree.changed() == {"a.mlir"}
    mapping[0:1] = b"x"
    assert tree.changed() == {"a.mlir"}
    mapping[0:1] = b"y"
    mapping.close()
    assert tree.changed() == {"a.mlir"}
    assert tree.changed() == set()


def test_a_mapping_from_before_the_watch_is_reported(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.mlir").write_text("before")
    with open(tmp_path / "tree" / "a.mlir", "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    (tmp_path / "notes").mkdir()
    monitor = complete(Monitor([root(tmp_path / "tree")], str(tmp_path / "notes")))
    token = monitor.now()
    for _ in range(2):
        mapping[0:1] = b"x"
        assert set(monitor.since({token.epoch: token.number})) == {str(tmp_path / "tree" / "a.mlir")}
        token = monitor.now()
    mapping.close()
    token_before, token = token, monitor.now()
    assert set(monitor.since({token_before.epoch: token_before.number})) == {str(tmp_path / "tree" / "a.mlir")}
    assert monitor.since({token.epoch: token.number}) == {}
    monitor.close()


def test_a_hard_link_ends_it(tree):
    os.link(tree / "a.mlir", tree.path / "elsewhere")
    with open(tree.path / "elsewhere", "r+b") as file:
        file.write(b"x")
    assert tree.changed() is None
    assert "hard link" in tree.monitor.lost
    again = complete(Monitor([root(tree.path / "tree")], str(tree.path / "notes")))
    assert again.epoch is None and "hard link" in again.lost
    again.close()


@pytest.mark.parametrize("name", ["link.mlir", "link", "sub/link.txt"])
def test_a_symbolic_link_ends_it(tree, name):
    os.symlink("/etc", tree / name)
    assert tree.changed() is None
    assert "symbolic link" in tree.monitor.lost
    again = complete(Monitor([root(tree.path / "tree")], str(tree.path / "notes")))
    assert again.epoch is None and "symbolic link" in again.lost
    again.close()


@pytest.mark.parametrize("edit", [
    lambda tree: (tree / "new").mkdir(),
    lambda tree: (tree / "sub").rename(tree / "moved"),
    lambda tree: (tree / "sub").rename(tree.path / "away"),
    lambda tree: (tree / "sub").chmod(0o500),
    lambda tree: (tree / ".tileiras").mkdir(),
    lambda tree: (tree.path / "tree").rename(tree.path / "moved"),
], ids=["make", "rename", "move away", "rights", "notes of a build", "the root"])  # fmt: skip
def test_a_change_of_folders_ends_it(tree, edit):
    edit(tree)
    assert tree.changed() is None


def test_a_replaced_root_ends_the_monitor(tree):
    # A folder above the root gives no events.
    above = tree.path.rename(tree.path.parent / (tree.path.name + "-moved"))
    (tree.path / "tree").mkdir(parents=True)
    assert tree.changed() is None
    assert "another folder" in tree.monitor.lost
    assert above.exists()


def test_a_queue_that_overflows_ends_it(tree):
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        most = int(file.read())
    for number in range(most // 2 + 100):  # equal events in a row are one
        os.utime(tree / "a.mlir", ns=(number, number))
        os.utime(tree / "b.mlir", ns=(number, number))
    assert tree.changed() is None
    assert tree.monitor.lost == "events were lost"


def test_more_changes_than_are_remembered_are_all(tree, monkeypatch):
    monkeypatch.setattr("tileiras.build.watch.monitor.monitor.MOST_CHANGES", 2)
    for name in ("a.mlir", "b.mlir", "sub/c.mlir"):
        (tree / name).write_text("else")
    assert tree.changed() is None
    assert tree.monitor.epoch is not None and not tree.monitor.lost
    (tree / "a.mlir").write_text("more")
    assert tree.changed() == {"a.mlir"}


def test_tokens_of_another_monitor_tell_nothing(tree):
    again = complete(Monitor([root(tree.path / "tree")], str(tree.path / "notes")))
    assert again.since({tree.token.epoch: tree.token.number}) is None
    assert again.since({}) is None
    again.close()


def test_a_folder_that_differs_for_the_client_is_not_watched(tree):
    other = Root(str(tree.path / "tree"), (1, 2), ())
    monitor = complete(Monitor([other], str(tree.path / "notes")))
    assert monitor.epoch is None and "is not the folder" in monitor.lost
    monitor.close()
    tree.monitor.check([other])
    assert "another folder" in tree.monitor.lost


def test_file_systems_that_change_elsewhere_are_not_watched(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(Unwatchable, match="kind proc"):
        Monitor([root("/proc/self")], str(tmp_path / "notes"))


MOUNTING = """\
import subprocess, sys
sys.path[:0] = [{tests!r}, {checkout!r}]
import pathlib
from watched_tree import Watched
from tileiras.build.watch.monitor.monitor import Monitor, Unwatchable
tree = Watched(pathlib.Path({path!r}))
subprocess.run(["mount", *{words!r}], check=True)
print(tree.changed(), tree.monitor.lost)
try:
    Monitor(tree.monitor.roots, str(tree.path / "notes"))
except Unwatchable as reason:
    print(reason)
"""


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_a_file_system_that_is_mounted_below_ends_it(tmp_path, kind):
    tests, sub = os.path.dirname(__file__), str(tmp_path / "tree" / "sub")
    words = ["-t", "tmpfs", "none", sub] if kind == "tmpfs" else ["--bind", str(tmp_path / "notes"), sub]
    code = MOUNTING.format(tests=tests, checkout=os.path.dirname(os.path.dirname(tests)), path=str(tmp_path),
                           words=words)  # fmt: skip
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", sys.executable, "-c", code], capture_output=True, text=True
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this system mounts nothing here: {done.stderr[-200:]}")
    assert done.stdout.splitlines() == [f"None something is mounted at {sub}", f"something is mounted at {sub}"]


# ---- random edits ----------------------------------------------------------------------------------------------------


def states(folder) -> dict[str, tuple[bytes, int]]:
    result = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                result[os.path.relpath(path, folder)] = (file.read(), os.stat(path).st_mtime_ns)
    return result


@pytest.mark.parametrize("seed", range(6))
def test_random_edits_are_all_reported(tree, seed):
    own = random.Random(seed)
    mappings = []
    before = states(tree.path / "tree")
    for _ in range(120):
        names = sorted(name for name in states(tree.path / "tree") if name.endswith(".mlir"))
        name = own.choice(names) if names else "a.mlir"
        edit = own.choice(["write", "replace", "rename", "remove", "new", "map", "unmap", "back", "truncate", "ask"])
        path = tree / name
        if edit == "write" or not names:
            path.write_text(str(own.random()))
        elif edit == "replace":
            replace(path, str(own.random()))
        elif edit == "rename":
            os.rename(path, tree / own.choice([f"r{own.randrange(4)}.mlir", f"sub/r{own.randrange(4)}.mlir"]))
        elif edit == "remove":
            path.unlink()
        elif edit == "new":
            (tree / f"sub/n{own.randrange(5)}.mlir").write_text(str(own.random()))
        elif edit == "map" and path.stat().st_size:
            with open(path, "r+b") as file:
                mappings.append(mmap.mmap(file.fileno(), 0))
        elif edit == "unmap" and mappings:
            mappings.pop(own.randrange(len(mappings))).close()
        elif edit == "back":
            state = path.stat()
            path.write_bytes(bytes(reversed(path.read_bytes())))
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        elif edit == "truncate":
            os.truncate(path, own.randrange(1, 4))
        elif edit == "ask":
            result = tree.changed()
            now = states(tree.path / "tree")
            differ = {name for name in {*before, *now} if before.get(name) != now.get(name)}
            assert result is not None and differ <= result
            before = now
        for mapping in mappings:
            if own.random() < 0.3:
                try:
                    mapping[0] = own.randrange(256)
                except (ValueError, IndexError):
                    pass
    for mapping in mappings:
        mapping.close()
    tree.changed()
    assert tree.changed() == set()


def test_builds_see_changes_through_one_interface():
    """`lease.Changes.changed_since`; only the command that stops the monitor knows it as well."""
    package = Path(__file__).parents[2] / "tileiras"
    pattern = re.compile(r"^\s*from tileiras\.build\.watch\.monitor", re.MULTILINE)
    paths = [path.relative_to(package).as_posix() for path in package.rglob("*.py") if pattern.search(path.read_text())]
    known = ("build/watch/lease.py", "processes/service/command.py")
    assert {path for path in paths if not path.startswith("build/watch/monitor/")} == set(known)
