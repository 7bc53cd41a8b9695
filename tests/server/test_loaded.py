"""The modules that the service loads, and the edits of its code that it notices: all changes of a module, no others."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import KERNEL

from tileiras.codegen import libdevice
from tileiras.processes.service import protocol
from tileiras.processes.service.loaded import Snapshot


@pytest.fixture
def package(tmp_path) -> Path:
    root = tmp_path / "package"
    (root / "inner").mkdir(parents=True)
    for path in (root / "__init__.py", root / "a.py", root / "inner" / "b.py"):
        path.write_text("VALUE = 1\n")
    time.sleep(0.02)  # a file system does not distinguish two writes in the same tick of its clock
    return root


def replaced(path: Path) -> None:
    draft = path.with_suffix(".new")
    draft.write_text("VALUE = 1\n")
    os.utime(draft, ns=(0, path.stat().st_mtime_ns))
    draft.rename(path)


def through_a_link(path: Path) -> None:
    link = path.parent.parent / "elsewhere.py"
    os.link(path, link)
    link.write_text("VALUE = 2\n")


EDITS: list[Callable[[Path], object]] = [
    lambda root: (root / "a.py").write_text("VALUE = 2\n"),
    lambda root: (root / "inner" / "b.py").write_text("VALUE = 10\n"),
    lambda root: replaced(root / "inner" / "b.py"),
    lambda root: through_a_link(root / "a.py"),
    lambda root: (root / "a.py").unlink(),
    lambda root: (root / "inner" / "c.py").write_text(""),
    lambda root: ((root / "a").mkdir(), (root / "a" / "__init__.py").write_text("")),
    lambda root: (root / "inner").rename(root / "other"),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_an_edit_makes_it_another_state(package, number):
    state = Snapshot(str(package))
    assert state.is_current()
    EDITS[number](package)
    assert not state.is_current() and not state.is_current()
    assert Snapshot(str(package)).is_current()


def test_other_files_of_the_folders_do_not(package):
    state = Snapshot(str(package))
    (package / "__pycache__").mkdir()
    (package / "inner" / ".b.py.swp").write_text("an editor's")
    assert state.is_current() and state.is_current()
    (package / "inner" / "__pycache__").mkdir()
    assert state.is_current()
    # The state of the folder that is remembered now still reveals a new module.
    (package / "inner" / "c.py").write_text("")
    assert not state.is_current()


def test_modules_of_other_commands_are_not_loaded():
    """Run in a new process: this one may have loaded NumPy, which starts threads."""
    code = (
        "import sys\nfrom tileiras.processes.service import loaded\nloaded.preload()\n"
        "print(*sorted(n for n in sys.modules if n == 'numpy' or n.startswith('tileiras.cli.tileiras')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tileiras.cli." + name.replace("-", "_") for name in sorted(protocol.PROGRAMS)]


LIBDEVICE = """\
import sys
from tileiras.codegen import bitcode_library
from tileiras.processes import helper
from tileiras.processes.service import loaded
bitcode_library.prepared_folder = "/nonexistent"
if sys.argv[1] == "service":
    loaded.preload()
called, whole = [], helper.call
def call(function, **given):
    called.append(function)
    return whole(function, **given)
helper.call = call
from tileiras.cli.tileiras import main
code = main([sys.argv[2], "--gpu-name=sm_90", "--emit=ptx", "-o", sys.argv[3]])
print(code, called.count("disassemble"))
"""


def test_a_request_has_libdevice_of_the_service(tmp_path):
    """Without a store, a process of its own takes the library apart; a child of the service inherits the result."""
    if libdevice.find() is None:
        pytest.skip("no libdevice")
    (tmp_path / "k.mlir").write_text(KERNEL)
    items = []
    for process, taken_apart in (("own", 1), ("service", 0)):
        words = [process, str(tmp_path / "k.mlir"), str(tmp_path / f"{process}.ptx")]
        environment = {**os.environ, "TILEIRAS_CACHE_DIR": "off"}
        done = subprocess.run(
            [sys.executable, "-c", LIBDEVICE, *words], env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout == f"0 {taken_apart}\n", done.stderr
        items.append((tmp_path / f"{process}.ptx").read_bytes())
    assert items[0] == items[1]
