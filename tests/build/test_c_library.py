"""The compiler as a C library: built by SCons with its example, and called through ctypes."""

import ctypes
import os
import shutil
import subprocess
import sys
import threading

import pytest
from project import CHECKOUT, axpy, module

from tileiras import c_folder
from tileiras.diagnostics.body import Argument, Body
from tileiras.driver.program import Program

pytestmark = pytest.mark.skipif(shutil.which("cc") is None or os.name == "nt", reason="no C compiler")


class Config(ctypes.Structure):
    _fields_ = [
        ("input", ctypes.c_char_p), ("size", ctypes.c_size_t), ("gpu", ctypes.c_int), ("level", ctypes.c_int),
        ("debug", ctypes.c_int), ("lineinfo", ctypes.c_int), ("host_arch", ctypes.c_int), ("host_os", ctypes.c_int),
        ("sanitize", ctypes.c_int), ("output", ctypes.c_char_p), ("root", ctypes.c_char_p),
    ]  # fmt: skip


class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
TEXT = module(axpy("first")).encode()


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The folder of the built example."""
    folder = tmp_path_factory.mktemp("c") / "c_app"
    shutil.copytree(os.path.join(CHECKOUT, "examples", "c_app"), folder, ignore=shutil.ignore_patterns("build", ".s*"))
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q", "CCFLAGS=-Werror"], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": CHECKOUT}, check=False,
    )  # fmt: skip
    if "no shared library" in done.stderr:
        pytest.skip("Python has no shared library")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stdout + done.stderr
    return folder / "build"


class Library:
    """The C functions, and the messages that they gave to their handler."""

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path)
        self.said: list[str] = []
        self._handler = HANDLER(lambda text, _: self.said.append(text.decode()))
        self.functions.tileirasSetMessageHandler(self._handler, None)

    def create(self, handle, **changes) -> int:
        fields = {"input": TEXT, "size": len(TEXT), "gpu": 90, "level": 3, **changes}
        return self.functions.tileirasProgramCreate(ctypes.byref(handle), ctypes.byref(Config(**fields)))

    def output(self, handle) -> tuple[int, bytes]:
        buffer = Buffer()
        code = self.functions.tileirasProgramGetOutput(handle, ctypes.byref(buffer))
        return code, ctypes.string_at(buffer.data, buffer.size) if buffer.data else b""


@pytest.fixture
def library(example):
    result = Library(str(example / "libtileiras.so"))
    yield result
    result.functions.tileirasSetMessageHandler(HANDLER(0), None)


def test_the_example_compiles_a_file(ptxas, example, tmp_path):
    (tmp_path / "k.mlir").write_bytes(TEXT)
    words = [example / "compile", "k.mlir", "90", "k.cubin", "2"]
    # Its Python is the one that built it, in any environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    program = Program.create(TEXT, gpu_name="sm_90", opt_level=2)
    program.compile()
    assert (tmp_path / "k.cubin").read_bytes() == program.get_output()
    assert done.stdout == f"k.cubin: {len(program.get_output())} bytes for sm_90\n"


@pytest.mark.parametrize("gpu, level, code, message", [
    ("91", "3", 2, "error: GPU architecture sm_91 is not supported by this version of tileiras.\n"),
    ("90", "4", 2, "error: invalid optimization level: 4\n"),
])  # fmt: skip
def test_the_example_ends_with_the_functions_code(example, tmp_path, gpu, level, code, message):
    (tmp_path / "k.mlir").write_bytes(TEXT)
    words = [example / "compile", "k.mlir", gpu, "k.cubin", level]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, message)
    assert os.listdir(tmp_path) == ["k.mlir"]


def test_a_package_that_cannot_be_imported_is_said_in_one_line(example, tmp_path):
    (tmp_path / "k.mlir").write_bytes(TEXT)
    (tmp_path / "tileiras").mkdir()
    (tmp_path / "tileiras" / "__init__.py").write_text("raise ImportError('nothing here')\n")
    done = subprocess.run(
        [example / "compile", "k.mlir", "90", "k.cubin"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "error: the compiler cannot be loaded: nothing here\n")


def test_the_four_functions_in_a_process_that_runs_python(ptxas, library):
    handle = ctypes.c_void_p()
    assert library.create(handle) == 0 and handle.value
    assert library.output(handle) == (4, b"")
    assert library.said == ["error: program has not been compiled"]
    assert library.functions.tileirasProgramCompile(handle) == 0
    code, cubin = library.output(handle)
    assert code == 0 and cubin.startswith(b"\x7fELF")
    assert library.functions.tileirasProgramRelease(handle) == 0
    assert len(library.said) == 1


def test_a_handler_of_diagnostics_gets_their_bodies_once(library):
    """What it accepts is not said; what the C code itself refuses has a body as well."""
    result, accepts = [], [True]

    def receive(address, _):
        body = Body.from_address(address)
        arguments = [Argument.from_address(body.arguments + 24 * number) for number in range(body.size)]
        text = "".join(ctypes.string_at(each.value, each.length).decode() for each in arguments)
        result.append((body.word, text, body.alive))
        return accepts[0]

    handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(receive)
    library.functions.tileirasSetDiagnosticHandler(handler, None)
    try:
        handle = ctypes.c_void_p()
        assert library.functions.tileirasProgramCompile(None) == 4
        assert library.create(handle, level=4) == 2
        broken = TEXT.replace(b"addf", b"nothing") if b"addf" in TEXT else TEXT[:-8]
        code = library.create(handle, input=broken, size=len(broken))
        code = code or library.functions.tileirasProgramCompile(handle)
        assert code == 3 and library.said == []
        accepts[0] = False
        assert library.functions.tileirasProgramCompile(None) == 4
    finally:
        library.functions.tileirasSetDiagnosticHandler(type(handler)(0), None)
    assert library.said == ["error: program is null"]
    assert [word for word, *_ in result[:2]] == [0x503, 0x503] and result[2][0] in (0x003, 0x104)
    assert result[0][1] == "program is null" and result[1][1] == "invalid optimization level: 4"
    assert {alive for *_, alive in result} == {0}


def test_null_pointers_are_refused_with_their_codes(library):
    functions, handle = library.functions, ctypes.c_void_p()
    assert functions.tileirasProgramCreate(None, None) == 4
    assert functions.tileirasProgramCreate(ctypes.byref(handle), None) == 2
    assert library.create(handle, input=None) == 2
    assert functions.tileirasProgramCompile(None) == 4
    assert functions.tileirasProgramGetOutput(None, None) == 4
    assert functions.tileirasProgramRelease(None) == 4
    assert library.create(handle) == 0
    assert functions.tileirasProgramGetOutput(handle, None) == 4
    assert functions.tileirasProgramRelease(handle) == 0
    assert library.said == [
        "error: program is null", "error: configuration is null", "error: input buffer is null",
        "error: program is null", "error: program is null", "error: program is null", "error: output pointer is null",
    ]  # fmt: skip


RELEASED = r"""
import ctypes, random, sys
sys.path[:0] = sys.argv[1:3]
from test_c_library import Library

library = Library(sys.argv[3])
functions = library.functions
choice = random.Random(7)
live, dead = [], [1, 2, 0x1234, 1 << 40, (1 << 64) - 1, id(library)]
for _ in range(300):
    handle = ctypes.c_void_p()
    if choice.random() < 0.6 or not live:
        assert library.create(handle) == 0 and handle.value not in (*live, *dead)
        live.append(handle.value)
    else:
        dead.append(live.pop(choice.randrange(len(live))))
        assert functions.tileirasProgramRelease(ctypes.c_void_p(dead[-1])) == 0
    for number in choice.sample(dead, 3):
        stale = ctypes.c_void_p(number)
        assert functions.tileirasProgramRelease(stale) == functions.tileirasProgramCompile(stale) == 4
        assert library.output(stale) == (4, b"")
assert set(library.said) == {"error: program is null"}
assert library.output(ctypes.c_void_p(live[0])) == (4, b"")
assert library.said[-1] == "error: program has not been compiled"
"""


def run_alone(script: str, example) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process, which it may end in any way."""
    words = [sys.executable, "-c", script, os.path.dirname(__file__), CHECKOUT, str(example / "libtileiras.so")]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)


def test_a_released_handle_and_an_invalid_one_are_refused(example):
    done = run_alone(RELEASED, example)
    assert (done.returncode, done.stderr) == (0, "")


RACING = r"""
import ctypes, sys, threading
sys.path[:0] = sys.argv[1:3]
from test_c_library import TEXT, Library

library = Library(sys.argv[3])
functions = library.functions
codes = []
text = TEXT + b"}"  # ends in the front end, so that no program is run
for _ in range(20):
    handle = ctypes.c_void_p()
    assert library.create(handle, input=text, size=len(text)) == 0
    calls = [functions.tileirasProgramCompile, functions.tileirasProgramRelease] * 4
    threads = [threading.Thread(target=lambda call=call: codes.append((call.__name__, call(handle)))) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
releases = [code for name, code in codes if name == "tileirasProgramRelease"]
assert releases.count(0) == 20 and releases.count(4) == 60
assert {code for name, code in codes if name != "tileirasProgramRelease"} <= {3, 4, 5}
"""


def test_one_of_several_threads_releases_a_handle_in_use(example):
    done = run_alone(RACING, example)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_refused_configuration_leaves_no_handle(library):
    handle = ctypes.c_void_p(1)
    assert library.create(handle, host_os=2) == 2
    assert handle.value is None
    assert library.said == ["error: unsupported host operating system"]


def test_messages_have_their_place_in_the_source(library):
    handle = ctypes.c_void_p()
    text = TEXT.replace(b"f32", b"f8E4M3FN")
    assert library.create(handle, input=text, size=len(text), gpu=80) == 0
    code = library.functions.tileirasProgramCompile(handle)
    assert code in (3, 5) and library.said[0].startswith("<input>:")
    library.functions.tileirasProgramRelease(handle)


def test_threads_have_programs_of_their_own(ptxas, library):
    result: dict[int, bytes] = {}

    def work(gpu: int) -> None:
        handle = ctypes.c_void_p()
        library.create(handle, gpu=gpu)
        library.functions.tileirasProgramCompile(handle)
        result[gpu] = library.output(handle)[1]
        library.functions.tileirasProgramRelease(handle)

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in (80, 90)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert library.said == []
    for gpu, cubin in result.items():
        program = Program.create(TEXT, gpu_name=f"sm_{gpu}")
        program.compile()
        assert cubin == program.get_output()


THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "tileiras.h"

static const char text[] = TEXT;
static int codes[3];

static void *work(void *argument) {
    int number = *(int *)argument;
    tileirasProgramConfig config = {.inputBuffer = text, .inputSize = sizeof text - 1, .gpu = 80 + 10 * number};
    tileirasProgram program;
    tileirasBuffer cubin = {0};
    int code = tileirasProgramCreate(&program, &config);
    if (code == 0) {
        code = tileirasProgramCompile(program);
        if (code == 0)
            code = tileirasProgramGetOutput(program, &cubin);
        if (code == 0 && memcmp(cubin.data, "\x7f" "ELF", 4) != 0)
            code = 100;
        tileirasProgramRelease(program);
    }
    codes[number] = code;
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    int numbers[3] = {0, 1, 2};
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d %d\n", codes[0], codes[1], codes[2]);
    return 0;
}
"""


def test_threads_of_a_c_program_start_python_once(ptxas, example, tmp_path):
    literal = "".join(f'"{line}\\n"' for line in TEXT.decode().replace("\\", "\\\\").replace('"', '\\"').splitlines())
    (tmp_path / "threads.c").write_text(THREADS.replace("TEXT;", literal + ";"))
    words = ["cc", "-Wall", "-Werror", "-o", "threads", "threads.c", f"-I{c_folder()}", f"-L{example}", "-ltileiras",
             f"-Wl,-rpath,{example}", "-lpthread"]  # fmt: skip
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "threads"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 0 0\n", "")


def test_the_header_is_cpp_as_well(tmp_path):
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "a.cpp").write_text('#include "tileiras.h"\nint main() { return tileirasProgramRelease(nullptr); }\n')
    words = ["c++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{c_folder()}", "a.cpp"]
    subprocess.run(words, cwd=tmp_path, check=True)
