"""Toolkits of the client's environment, and one that is replaced while the service runs: each request has its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import CHECKOUT, KERNEL, Answer, Service

from tests.processes import children, processes, until
from tileiras.codegen import nvjitlink, nvjitlink_library
from tileiras.diagnostics import CompileError

LIBRARY = """\
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* nvJitLink of another release, which has the real one work and says so in the log of information. */
typedef int function(void *, ...);

static function *real(const char *name) {
    char symbol[80];
    snprintf(symbol, sizeof symbol, "__nvJitLink%s_%s", name, RELEASE);
    return (function *)dlsym(dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), symbol);
}

#define NAMED_(name, minor) __nvJitLink##name##_13_##minor
#define NAMED(name, minor) NAMED_(name, minor)
#define TEXT_(minor) #minor
#define TEXT(minor) TEXT_(minor)
static const char said[] = "ptxas warning : this is release 13." TEXT(MINOR) "\\n";

int nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = 13; *minor = MINOR; return 0; }
int NAMED(Create, MINOR)(void *handle, unsigned count, const char **words) {
    return real("Create")(handle, count, words);
}
int NAMED(AddData, MINOR)(void *handle, int kind, const void *data, size_t size, const char *name) {
    return real("AddData")(handle, kind, data, size, name);
}
int NAMED(Complete, MINOR)(void *handle) {
    if (access("wait", F_OK) == 0) {
        fclose(fopen("started", "w"));
        while (access("go", F_OK) != 0) usleep(10000);
    }
    return real("Complete")(handle);
}
int NAMED(GetErrorLogSize, MINOR)(void *handle, size_t *size) { return real("GetErrorLogSize")(handle, size); }
int NAMED(GetErrorLog, MINOR)(void *handle, char *text) { return real("GetErrorLog")(handle, text); }
int NAMED(GetInfoLogSize, MINOR)(void *handle, size_t *size) {
    int failed = real("GetInfoLogSize")(handle, size);
    *size += sizeof said;
    return failed;
}
int NAMED(GetInfoLog, MINOR)(void *handle, char *text) {
    strcpy(text, said);
    return real("GetInfoLog")(handle, text + strlen(text));
}
int NAMED(GetLinkedCubinSize, MINOR)(void *handle, size_t *size) { return real("GetLinkedCubinSize")(handle, size); }
int NAMED(GetLinkedCubin, MINOR)(void *handle, void *data) { return real("GetLinkedCubin")(handle, data); }
int NAMED(Destroy, MINOR)(void *handle) { return real("Destroy")(handle); }
"""

WORDS = ("k.mlir", "--gpu-name=sm_90", "--assembler=nvjitlink", "-o", "k.cubin")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> dict[int, Path]:
    """nvJitLink 13.71 and 13.72, as files of one size."""
    try:
        real = nvjitlink.find()
    except CompileError:
        pytest.skip("no nvJitLink")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    major, minor = nvjitlink_library.version(real)
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "library.c").write_text(LIBRARY)
    result = {}
    for number in (71, 72):
        result[number] = folder / f"lib{number}.so"
        defined = [f'-DLIBRARY="{real}"', f'-DRELEASE="{major}_{minor}"', f"-DMINOR={number}"]
        subprocess.run(
            ["cc", "-shared", "-fPIC", *defined, "library.c", "-o", result[number], "-ldl"], cwd=folder, check=True
        )
    assert result[71].stat().st_size == result[72].stat().st_size
    return result


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a kernel that needs no libdevice."""
    (tmp_path / "k.mlir").write_text(KERNEL.replace("exp %v", "negf %v"))
    return tmp_path


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """The packages installed here, without NVIDIA's wheels."""
    folder = tmp_path_factory.mktemp("packages")
    for place in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))):
        for name in os.listdir(place):
            if name != "nvidia" and not name.endswith(".pth"):
                (folder / name).symlink_to(os.path.join(place, name))
    return folder


@pytest.fixture
def bare(packages, tmp_path_factory) -> Iterator[Service]:
    """A service of a Python that has no wheels of NVIDIA's, not started yet."""
    service = Service(tmp_path_factory.mktemp("bare"), f"{packages}{os.pathsep}{CHECKOUT}", ("-S",))
    yield service
    service.stop()


def toolkit(folder: Path, library: Path) -> Path:
    """A toolkit with nvJitLink alone."""
    (folder / "lib").mkdir(parents=True)
    shutil.copy2(library, folder / "lib" / "libnvJitLink.so.13")
    return folder


def linked(answer: Answer) -> str:
    """The release of nvJitLink that linked a cubin."""
    assert answer.code == 0 and answer.files["k.cubin"][1].startswith(b"\x7fELF"), answer.error
    (line,) = [line for line in answer.error.decode().splitlines() if "this is release" in line]
    return line.split()[-1]


def both(service: Service, folder: Path, **environment: str) -> Answer:
    """The answer of the service, which must equal that of a command without it."""
    before = service.facts()["requests"]
    served = service.run(WORDS, folder, environment=environment)
    assert service.facts()["requests"] == before + 1, "the service was not asked"
    assert served == service.run(WORDS, folder, "off", environment=environment)
    return served


def test_the_wheels_nvjitlink_gives_one_answer(libraries, service, folder):
    answer = both(service, folder)
    assert answer.code == 0 and answer.files["k.cubin"][1].startswith(b"\x7fELF")


def test_the_toolkit_that_the_client_names_is_asked(libraries, bare, folder, tmp_path_factory):
    """The toolkit of the service's own environment is not used."""
    roots = {number: toolkit(tmp_path_factory.mktemp(f"cuda{number}"), path) for number, path in libraries.items()}
    bare.variables["CUDA_HOME"] = str(roots[71])
    bare.start()
    for number in (71, 72, 71):
        assert linked(both(bare, folder, CUDA_HOME=str(roots[number]))) == f"13.{number}"
    none = both(bare, folder, CUDA_HOME="/nonexistent")
    assert none.code == 2 and b"could not find libnvJitLink" in none.error


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["another file in its place", "written over", "with its old time"])
def test_a_library_that_is_replaced_is_another_one(libraries, bare, folder, tmp_path_factory, how):
    """The service has opened the first library; a cubin that the store has for it is not used for the second."""
    root = toolkit(tmp_path_factory.mktemp("cuda"), libraries[71])
    place = root / "lib" / "libnvJitLink.so.13"
    bare.variables |= {"CUDA_HOME": str(root), "TILEIRAS_CACHE_DIR": str(tmp_path_factory.mktemp("store"))}
    bare.start()
    assert linked(bare.run(WORDS, folder)) == "13.71"
    if how == "written over":
        with open(libraries[72], "rb") as new, open(place, "r+b") as old:
            old.write(new.read())
    else:
        shutil.copy(libraries[72], root / "new")
        if how == "with its old time":
            state = place.stat()
            os.utime(root / "new", ns=(state.st_atime_ns, state.st_mtime_ns))
        (root / "new").replace(place)
    before = bare.facts()["requests"]
    assert linked(bare.run(WORDS, folder)) == "13.72"
    assert linked(bare.run(WORDS, folder, "off")) == "13.72"
    assert bare.facts()["requests"] == before + 1


def test_the_ptxas_that_the_client_names_is_asked(ptxas, bare, folder, tmp_path_factory):
    """The program is found by PATH, without wheels, and after another program has replaced it."""
    program = '#!/bin/sh\ntest "$1" = --version && echo "V13.{}" && exit\necho "ptxas warning : this is {}" >&2\n'
    folders = {}
    for number in (71, 72):
        folders[number] = tmp_path_factory.mktemp(f"bin{number}")
        (folders[number] / "ptxas").write_text(program.format(number, number) + f'exec "{ptxas}" "$@"\n')
        (folders[number] / "ptxas").chmod(0o755)
    words = ("k.mlir", "--gpu-name=sm_90", "-o", "k.cubin")
    bare.variables |= {"PATH": f"{folders[71]}{os.pathsep}{os.environ['PATH']}",
                       "TILEIRAS_CACHE_DIR": str(tmp_path_factory.mktemp("store"))}  # fmt: skip
    bare.start()
    for number in (71, 72):
        path = {"PATH": f"{folders[number]}{os.pathsep}{os.environ['PATH']}"}
        answer = bare.run(words, folder, environment=path)
        assert answer.code == 0 and f"this is {number}".encode() in answer.error
        assert bare.run(words, folder, "off", environment=path) == answer
    os.replace(folders[72] / "ptxas", folders[71] / "ptxas")
    assert b"this is 72" in bare.run(words, folder).error
    assert bare.facts()["requests"] == 3


@pytest.mark.parametrize("killed", ["child", "client"])
def test_a_request_that_is_killed_in_a_link(libraries, bare, folder, tmp_path_factory, killed):
    bare.variables["CUDA_HOME"] = str(toolkit(tmp_path_factory.mktemp("cuda"), libraries[71]))
    bare.start()
    (folder / "wait").touch()
    process = subprocess.Popen(
        [*bare.command(), *WORDS], cwd=folder, env=bare.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until((folder / "started").exists, "it does not get that far")
    (worker,) = [n for n in children(bare.facts()["pid"]) if os.readlink(f"/proc/{n}/cwd") == str(folder)]
    if killed == "client":
        process.kill()
        process.communicate()
        until(lambda: not os.path.exists(f"/proc/{worker}"), "the link goes on")
        assert not (folder / "k.cubin").exists()
        assert [n for n in processes(bare.runtime) if os.readlink(f"/proc/{n}/cwd") == str(folder)] == []
        return
    (folder / "go").touch()
    os.kill(worker, signal.SIGKILL)
    _, result = process.communicate()
    assert process.returncode == 0 and b"this is release 13.71" in result
    assert (folder / "k.cubin").read_bytes().startswith(b"\x7fELF")
