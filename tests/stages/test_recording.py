"""The reads of the user's modules that an export records; those of libraries and of Python are left to them."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile")

from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.pipeline import stage  # noqa: E402
from tileiras.stages import StageContext, export  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"

KERNEL = """
import cuda.tile as ct

@ct.kernel
def k(a):
    ct.store(a, index=(ct.bid(0),), tile=ct.load(a, index=(ct.bid(0),), shape=(64,)) + 1)

TILEIRAS_EXPORT = {"k": (k, "f32[?]")}
"""

LIBRARY = """
import os, time
OWN = os.environ.get("FAKE_LIBRARY_OPTION")
START = time.time()
with open(os.path.join(os.path.dirname(__file__), "data.txt")) as file:
    file.read()

def lines(path):
    with open(path) as file:
        return file.readlines()

def elapsed():
    return time.time() - START

def output():
    import subprocess
    return subprocess.run(["true"], check=True)
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder with a file, and an installed package `fake`."""
    (tmp_path / "n.txt").write_text("1")
    packages = tmp_path / "lib" / "site-packages"
    (packages / "fake").mkdir(parents=True)
    (packages / "fake" / "__init__.py").write_text(LIBRARY)
    (packages / "fake" / "data.txt").write_text("")
    install(packages, "1.0")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("HOME", "/home/somebody")
    yield tmp_path / "kernels"
    sys.modules.pop("fake", None)


def install(packages, version):
    for old in packages.glob("fake-*"):
        shutil.rmtree(old)
    info = packages / f"fake-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake\nVersion: {version}\n\n")
    (info / "RECORD").write_text("fake/__init__.py,sha256=abc,1\nfake/data.txt,sha256=def,1\n")


def exported_file(path, gpu_name="sm_90"):
    """The context of an export of a file."""
    context = StageContext(source_name=path.name, source_path=str(path))
    export.run(path.read_bytes(), stage("export").select(CompileOptions({"gpu-name": gpu_name})), context)
    return context


def exported(tree, body):
    """The context of an export of a kernel after statements."""
    tree.mkdir(exist_ok=True)
    (tree / "k.py").write_text(textwrap.dedent(body) + KERNEL)
    return exported_file(tree / "k.py")


def titles(tree, body):
    return [row.title for row in exported(tree, body).inputs]


def test_a_plain_kernel_has_no_rows(tree):
    assert titles(tree, "import math, os, sys, json, random, time, datetime, functools") == []


@pytest.mark.parametrize(
    "body, expected",
    [
        ("import os; os.path.getsize('/etc/passwd')", ["size /etc/passwd"]),
        ("import os; os.stat('../n.txt').st_mtime", ["times <folder>/../n.txt"]),
        ("import pathlib; pathlib.Path(__file__).resolve().parent.exists()", []),
        ("import os; dict(os.environ)", ["variables"]),
        ("import os; 'A' in os.environ; os.environ.get('B')", ["variable A", "variable B"]),
        ("import os; os.environ['A'] = '1'; os.environ['A']", []),
        ("import os; os.getcwd()", ["process os.getcwd"]),
        ("import os; os.path.expanduser('~')", ["variable HOME"]),
        ("import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'1'); f.seek(0); f.read()", []),
        ("from pathlib import Path; p = Path(__file__).with_name('o'); p.write_text('1'); p.read_text()", []),
        ("import inspect, textwrap; inspect.getsource(textwrap.dedent)", []),
        ("import random; random.seed(1); random.random(); random.Random(2).random()", []),
        ("import logging; logging.getLogger('k').warning('x')", []),
        ("import sqlite3, pathlib; sqlite3.connect(pathlib.Path(__file__).with_name('d'))", ["file d"]),
        ("import fake", ["distribution fake"]),
        ("import fake; fake.lines(__file__ + 'x') if 0 else fake.elapsed()", ["distribution fake"]),
        ("import fake; fake.lines(__file__[:-4] + '../n.txt')", ["distribution fake", "file ../n.txt"]),
        ("import importlib.util; importlib.util.find_spec('fake')", ["distribution fake"]),
        ("import importlib.util; importlib.util.find_spec('not_there')", ["module not_there in .:*"]),
    ],
)
def test_rows_are_those_of_the_users_reads(tree, monkeypatch, body, expected):
    tree.mkdir()
    monkeypatch.chdir(tree)
    assert titles(tree, body) == expected


@pytest.mark.parametrize("loaded", [False, True])
def test_a_package_is_one_row_however_it_was_loaded(tree, loaded):
    if loaded:
        exported(tree, "import fake")
    assert ("fake" in sys.modules) is loaded
    (row,) = exported(tree, "import fake").inputs
    assert row.title == "distribution fake" and row.state.startswith("1.0 ")
    install(tree.parent / "lib" / "site-packages", "1.1")
    assert exported(tree, "import fake").inputs[0].state.startswith("1.1 ")


def test_a_foreign_library_is_compared_by_content(tree):
    tree.mkdir()
    source = next(filter(os.path.exists, ("/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6")), None)
    if source is None:
        pytest.skip("no library to load")
    shutil.copy(source, tree / "own.so")
    body = "import ctypes, pathlib; ctypes.CDLL(str(pathlib.Path(__file__).with_name('own.so')))"
    (first,) = exported(tree, body).inputs
    with open(tree / "own.so", "ab") as file:
        file.write(b"\0")
    (second,) = exported(tree, body).inputs
    assert first.title == second.title == "library own.so" and first.state != second.state


UNSEEN = {
    "a process": ("import subprocess; subprocess.run(['true'])", "import os; os.system('true')",
                  "import fake; fake.output()"),
    "a socket": ("import socket; socket.socket().close()", "import socket; socket.gethostname()"),
    "the clock": ("import time; time.time()", "from time import perf_counter as p; p()",
                  "import datetime; datetime.datetime.now()", "from datetime import date; date.today()",
                  "import time; time.localtime()"),
    "unseeded randomness": ("import random; random.random()", "from random import randint; randint(1, 2)",
                            "import os; os.urandom(1)", "import uuid; uuid.uuid4()", "import random; random.Random()",
                            "import secrets; secrets.randbits(8)", "import numpy; numpy.random.rand()",
                            "import numpy; numpy.random.default_rng()", "open('/dev/urandom', 'rb').close()"),
}  # fmt: skip


@pytest.mark.parametrize("what, body", [(what, body) for what, bodies in UNSEEN.items() for body in bodies])
def test_an_invalid_input_is_reported_at_its_location(tree, what, body):
    context = exported(tree, f"\n{body}\n{body}\n")
    assert [row.name for row in context.inputs if row.kind == "unseen"] == [what]
    (result,) = context.engine.diagnostics
    assert result.position.filename == "k.py" and result.position.line == 2 and what in result.message


def test_a_seed_makes_chance_an_ordinary_value(tree):
    assert titles(tree, "import numpy; numpy.random.seed(1); numpy.random.rand()") == ["distribution numpy"]


def test_declared_inputs_replace_invisible_ones(tree):
    body = "import time; time.time()\nTILEIRAS_INPUTS = ['../n.txt', '$TILE', 'shapes/']\n"
    context = exported(tree, body)
    assert [row.title for row in context.inputs] == ["file ../n.txt", "variable TILE", "folder shapes"]
    assert context.engine.diagnostics == []


@pytest.mark.parametrize("value", ["'n.txt'", "[1]", "['']", "['$']", "['$A=B']", "{'a': 1}"])
def test_an_invalid_declaration_is_located(tree, value):
    with pytest.raises(CompileError) as caught:
        exported(tree, f"\n\nTILEIRAS_INPUTS = {value}\n")
    assert caught.value.code == 3 and caught.value.render().startswith("k.py:3:1: error: ")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_results_of_examples_are_stored(name):
    """The examples read only inputs that can be compared, and none that belong to one checkout."""
    context = exported_file(EXAMPLES / name, "sm_120")
    assert context.engine.diagnostics == []
    assert not [row for row in context.inputs if row.kind == "unseen" or str(EXAMPLES) in row.title + row.state]


def test_an_export_leaves_the_process_as_it_was(tree, monkeypatch):
    monkeypatch.setenv("KEPT", "as it was")
    before = (dict(os.environ), os.getcwd(), list(sys.path), list(sys.meta_path), os.stat, __import__, type(os.environ))
    body = "os.environ['KEPT'] = 'x'; os.environ['NEW'] = 'y'; os.chdir('/'); sys.path.append('z')"
    exported(tree, f"import os, sys; {body}")
    after = (dict(os.environ), os.getcwd(), list(sys.path), list(sys.meta_path), os.stat, __import__, type(os.environ))
    assert before == after


def test_variables_of_the_front_end_are_part_of_the_key():
    program = (
        "from tileiras.stages.export import front_end_identity as f; import os; first = f(None);"
        "os.environ['CUDA_TILE_TEMP_DIR'] = '/x'; assert f(None) == first;"
        "os.environ['CUDA_TILE_TESTING_DISABLE_DIV'] = '1'; assert f(None) != first"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_folders_of_libraries_are_known_before_the_first_event(monkeypatch):
    # In Python 3.13 `sysconfig` reads files before it can say them: an event of such a read must not ask for them.
    from tileiras.stages.export import events, frames

    known = []
    for function in (frames._libraries, frames._standard):
        function.cache_clear()
    monkeypatch.setattr(events, "_has_hook", False)
    monkeypatch.setattr(sys, "addaudithook", lambda _: known.append(frames._libraries.cache_info().currsize))
    events._install_hook()
    assert known == [1] and frames._standard.cache_info().currsize == 1
