"""Compiled modules in the store: a process that may not write `.pyc` files compiles no module, and damage, edits and
files of other users do not change the code that runs."""

import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import tileiras
from tileiras.codegen import libdevice
from tileiras.processes.service import code_archive
from tileiras.processes.service.code_archive import Archive

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the archive needs users")

KERNEL = "cuda_tile.module @m { entry @k() { return } }"

FIRST = """\
import sys
import tileiras.processes.service.code_archive, tileiras.processes.service.client
print(*(name for name in sys.modules if name.partition(".")[0] == "tileiras"))
"""
"""Prints the files that a command compiles; the hook is installed before an archive can be loaded."""

COMMAND = """\
import os, sys
found = set()
sys.addaudithook(lambda event, given: found.add(str(given[1])) if event == "compile" and given[1] else None)
import atexit
atexit.register(lambda: open(os.environ["COMPILED"], "w").write("\\n".join(sorted(found))))
from tileiras.processes.service import client
sys.exit(client.run("tileiras"))
"""


def compiled(folder: Path, root: Path, **changes: str) -> tuple[set[str], bytes]:
    """The modules of the package that one command compiled, and its product."""
    environment = {
        **os.environ, "PYTHONPATH": str(root), "TILEIRAS_CACHE_DIR": str(folder / "store"), "TILEIRAS_SERVER": "off",
        "TILEIRAS_CACHE_MODE": "refresh", "COMPILED": str(folder / "compiled"), **changes,
    }  # fmt: skip
    words = [str(folder / "k.mlir"), "--gpu-name=sm_90", "--emit=ptx", "-o", str(folder / "k.ptx")]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words], env=environment, cwd=folder, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    names = set()
    for path in (folder / "compiled").read_text().splitlines():
        if path.startswith(str(root)):
            names.add(path.removeprefix(f"{root}/").removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    return names, (folder / "k.ptx").read_bytes()


@pytest.fixture
def copy(tmp_path) -> Path:
    """An installation in which no user can write a `.pyc` file."""
    root = tmp_path / "installed"
    package = Path(tileiras.__file__).parent
    shutil.copytree(package, root / "tileiras", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [path for path in root.rglob("*") if path.is_dir()]:
        (folder / "__pycache__").touch()
    (tmp_path / "k.mlir").write_text(KERNEL)
    return root


@pytest.mark.parametrize("changes", [{"PYTHONDONTWRITEBYTECODE": "1"}, {"PYTHONDONTWRITEBYTECODE": ""}])
def test_the_second_process_compiles_no_module(tmp_path, copy, changes):
    outside = set(subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True).stdout.split())
    assert len(outside) < 12
    first, product = compiled(tmp_path, copy, **changes)
    assert len(first) > 150 and outside < first
    second, again = compiled(tmp_path, copy, **changes)
    assert second == outside and again == product
    if changes["PYTHONDONTWRITEBYTECODE"]:
        return
    # An edit is seen at once, and is in the archive after that.
    edited = copy / "tileiras" / "stages" / "ptx.py"
    with edited.open("a") as file:
        file.write("\n# edited\n")
    os.utime(edited, ns=(0, 10**18))
    assert compiled(tmp_path, copy, **changes) == (outside | {"tileiras.stages.ptx"}, product)
    assert compiled(tmp_path, copy, **changes) == (outside, product)


@pytest.mark.parametrize(
    "changes", [{"TILEIRAS_CACHE_DIR": "off"}, {"TILEIRAS_CACHE_MODE": "off"}, {"TILEIRAS_CACHE_MODE": "read-only"}]
)
def test_nothing_is_written_where_nothing_shall_be_kept(tmp_path, monkeypatch, changes):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "k.mlir").write_text(KERNEL)
    compiled(tmp_path, Path(tileiras.__file__).parents[1], **changes)
    assert not list(tmp_path.rglob("code"))


def prepared(root: Path) -> subprocess.CompletedProcess[str]:
    """`tileiras-cache prepare` of an installation, as a container image runs it."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "TILEIRAS_CACHE_DIR": "off"}
    command = [sys.executable, "-m", "tileiras.cli.tileiras_cache", "prepare"]
    return subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.sampled(2)
@pytest.mark.skipif(libdevice.find() is None, reason="no libdevice")
@pytest.mark.parametrize(
    "changes", [{"TILEIRAS_CACHE_DIR": "off"}, {"TILEIRAS_CACHE_MODE": "off"}, {"TILEIRAS_CACHE_MODE": "read-only"}]
)
def test_a_prepared_installation_compiles_no_module(tmp_path, copy, changes):
    """In an environment such as a container, where no files may be stored."""
    changes = {"PYTHONDONTWRITEBYTECODE": "1", **changes}
    refused = prepared(copy)
    assert refused.returncode == 1 and refused.stderr.startswith(f"error: unable to write '{copy}")
    assert len(compiled(tmp_path, copy, **changes)[0]) > 150
    for blocked in copy.rglob("__pycache__"):
        blocked.unlink()
    done = prepared(copy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{sum(1 for _ in copy.rglob('*.py'))} modules compiled\n")
    first, product = compiled(tmp_path, copy, **changes)
    assert first == set()
    # An edit is compiled again, in every process.
    edited = copy / "tileiras" / "stages" / "ptx.py"
    with edited.open("a") as file:
        file.write("\n# edited\n")
    os.utime(edited, ns=(0, 10**18))
    for _ in range(2):
        assert compiled(tmp_path, copy, **changes) == ({"tileiras.stages.ptx"}, product)


# ---- a small package -------------------------------------------------------------------------------------------------


class Small:
    """A package of modules that count how often they are compiled, and archives of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "small"
        self.store = folder / "store"
        self.folder.mkdir()
        for name, value in (("__init__", 0), ("a", 1), ("b", 2)):
            self.write(name, f"VALUE = {value}")

    def write(self, name: str, text: str, second: int = 1) -> None:
        path = self.folder / f"{name}.py"
        path.write_text(text)
        os.utime(path, ns=(0, second * 10**15))

    def archive(self) -> Archive:
        """An archive whose file is closed with its last reference: it is not in `sys.meta_path`, from which `close`
        would remove it."""
        result = Archive(str(self.store), "small", str(self.folder), writable=True)
        if result._file >= 0:
            weakref.finalize(result, os.close, result._file)
        return result

    def value(self, archive: Archive, name: str) -> object:
        spec = archive.find_spec(f"small.{name}", [str(self.folder)])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.__file__ == str(self.folder / f"{name}.py")
        return module.VALUE

    def fill(self) -> Path:
        """Save all modules; the archive's file."""
        archive = self.archive()
        assert [self.value(archive, name) for name in ("a", "b")] == [1, 2]
        archive.save()
        (file,) = (self.store / code_archive.FOLDER).iterdir()
        return file

    def kept(self, name: str) -> bool:
        """Whether the archive answers for a module."""
        spec = self.archive().find_spec(f"small.{name}", [str(self.folder)])
        return isinstance(spec.loader, code_archive._Loader)


@pytest.fixture
def small(tmp_path) -> Small:
    return Small(tmp_path)


def test_any_damaged_byte_makes_code_absent(small):
    file = small.fill()
    whole = file.read_bytes()
    assert small.kept("a") and small.kept("b")
    absent = 0
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        archive = small.archive()
        assert [small.value(archive, name) for name in ("a", "b")] == [1, 2]
        absent += not (small.kept("a") and small.kept("b"))
    assert absent == len(whole)
    for size in range(0, len(whole), 7):
        file.write_bytes(whole[:size])
        assert [small.value(small.archive(), name) for name in ("a", "b")] == [1, 2]


def planted(small: Small) -> Path:
    """An archive in which a module's entry has the code of another program."""
    file = small.fill()
    path = str(small.folder / "a.py")
    state = code_archive.file_state(path)
    other = {"small.a": ((path, False, state), marshal.dumps(compile("VALUE = 'other'", path, "exec")))}
    file.write_bytes(code_archive._packed(code_archive.identity(str(small.folder)), other))
    return file


def test_code_writable_by_other_users_does_not_run(small, tmp_path):
    file = planted(small)
    # The user's own archive is believed, as a .pyc file is.
    assert small.value(small.archive(), "a") == "other"
    for mode in (0o620, 0o602, 0o666):
        file.chmod(mode)
        assert small.value(small.archive(), "a") == 1, oct(mode)
    file.chmod(0o600)
    for mode in (0o750, 0o705, 0o777):
        file.parent.chmod(mode)
        assert small.value(small.archive(), "a") == 1, oct(mode)
    file.parent.chmod(0o700)
    assert small.value(small.archive(), "a") == "other"
    elsewhere = tmp_path / "elsewhere"
    file.parent.rename(elsewhere)
    file.parent.symlink_to(elsewhere)
    assert small.value(small.archive(), "a") == 1
    file.parent.unlink()
    elsewhere.rename(file.parent)
    file.rename(tmp_path / "archive")
    file.symlink_to(tmp_path / "archive")
    assert small.value(small.archive(), "a") == 1


@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root gives files away")
def test_another_users_code_does_not_run(small):
    file = planted(small)
    os.chown(file, 12345, -1)
    assert small.value(small.archive(), "a") == 1
    os.chown(file, 0, -1)
    os.chown(file.parent, 12345, -1)
    assert small.value(small.archive(), "a") == 1


def test_another_interpreters_code_does_not_run(small):
    file = small.fill()
    data = file.read_bytes()
    other = {"small.a": (("x", False, (0, 0, 0)), b"")}
    file.write_bytes(code_archive._packed("another", other))
    assert small.value(small.archive(), "a") == 1
    file.write_bytes(data)
    assert small.kept("a")


def test_sources_decide(small):
    small.fill()
    small.write("a", "VALUE = 9", second=2)  # another time
    small.write("b", "VALUE = 33")  # another size
    archive = small.archive()
    assert small.value(archive, "a") == 9 and small.value(archive, "b") == 33
    archive.save()
    assert small.kept("b") and small.value(small.archive(), "b") == 33
    (small.folder / "b.py").unlink()
    assert small.archive().find_spec("small.b", [str(small.folder)]) is None


def test_a_source_that_has_just_been_written_is_not_kept(small):
    archive = small.archive()
    (small.folder / "a.py").write_text("VALUE = 5")
    assert small.value(archive, "a") == 5 and small.value(archive, "b") == 2
    archive.save()
    assert small.kept("b") and not small.kept("a")


def test_processes_that_save_at_once_leave_a_whole_archive(small):
    code = """\
import sys
from tileiras.processes.service.code_archive import Archive
archive = Archive(sys.argv[1], "small", sys.argv[2], writable=True)
spec = archive.find_spec(f"small.{sys.argv[3]}", [sys.argv[2]])
spec.loader.get_code(spec.name)
sys.stdin.read()
archive.save()
"""
    for name in "cdefgh":
        small.write(name, f"VALUE = {name!r}")
    running = [
        subprocess.Popen([sys.executable, "-c", code, small.store, small.folder, name], stdin=subprocess.PIPE)
        for name in "cdefgh"
    ]
    for process in running:
        process.stdin.close()
    assert [process.wait() for process in running] == [0] * 6
    assert len(list((small.store / code_archive.FOLDER).iterdir())) == 1
    assert any(small.kept(name) for name in "cdefgh")
    assert [small.value(small.archive(), name) for name in "cdefgh"] == list("cdefgh")
