"""The compiler as a shared library for hosts in C, C++ and other languages.

    install("/opt/tileiras")      -> lib/libtileiras.so, include/tileiras.h, pkg-config's file, the manual page

`build/scons/compiler_library.py` has the builder.  The library embeds the Python that builds it; `TILEIRAS_PYTHON` in
a program's environment names another interpreter of the same version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig

import tileiras
from tileiras import c_folder
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.support.files import write_atomically


def places() -> dict[str, str]:
    """The interpreter that the library starts, and the folder of the package, by their macros."""
    return {"TILEIRAS_PYTHON": sys.executable.replace("\\", "/"),
            "TILEIRAS_PACKAGES": os.path.dirname(os.path.dirname(c_folder())).replace("\\", "/")}  # fmt: skip


def version_flags() -> list[str]:
    """Only the functions of tileiras.h are exported; with GNU's linker they have a version."""
    return [f"-Wl,--version-script={os.path.join(c_folder(), 'tileiras.map')}"] if sys.platform == "linux" else []


def install(prefix: str) -> list[str]:
    """Build the library with the C compiler `cc` (or that of CC) below a folder, with header, pkg-config's file and
    manual page; returns their paths.

    Raises CompileError (code 2) without a compiler or a Python with a shared library, OSError for a folder that cannot
    be written.
    """
    compiler = os.environ.get("CC") or "cc"
    if shutil.which(compiler) is None:
        raise CompileError.at(None, f"no C compiler: '{compiler}' is not on PATH", ExitCode.CONFIGURATION)
    if os.name == "nt":
        raise CompileError.at(None, "on Windows env.TileCompiler builds the library", ExitCode.CONFIGURATION)
    python = link_variables()
    prefix = os.path.abspath(prefix)
    lib, include, manuals = (os.path.join(prefix, *parts) for parts in (["lib"], ["include"], ["share", "man", "man3"]))
    for folder in (os.path.join(lib, "pkgconfig"), include, manuals):
        os.makedirs(folder, exist_ok=True)
    library = os.path.join(lib, f"libtileiras{'.dylib' if sys.platform == 'darwin' else '.so'}")
    command = [
        compiler, "-O2", "-fPIC", "-shared", f"-I{sysconfig.get_paths()['include']}",
        *(f'-D{name}="{value}"' for name, value in places().items()),
        os.path.join(c_folder(), "tileiras.c"), "-o", library, *version_flags(),
        *(f"-L{folder}" for folder in python["LIBPATH"]), *(f"-Wl,-rpath,{folder}" for folder in python["RPATH"]),
        *(f"-l{name}" for name in python["LIBS"]),
    ]  # fmt: skip
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise CompileError.at(None, f"{compiler} failed: {process.stderr.strip()}", ExitCode.CONFIGURATION)
    described = os.path.join(lib, "pkgconfig", "libtileiras.pc")
    write_atomically(described, _PKG_CONFIG.format(version=tileiras.__version__).encode())
    header, page = os.path.join(include, "tileiras.h"), os.path.join(manuals, "libtileiras.3")
    shutil.copyfile(os.path.join(c_folder(), "tileiras.h"), header)
    shutil.copyfile(os.path.join(os.path.dirname(c_folder()), "share", "man", "man3", "libtileiras.3"), page)
    return [library, header, described, page]


_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..

Name: libtileiras
Description: Compiles CUDA Tile IR in this process
URL: https://docs.nvidia.com/cuda/tile-ir/
Version: {version}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -ltileiras
"""


def link_variables() -> dict[str, list[str]]:
    """Construction variables that link with Python's shared library."""
    if os.name == "nt":
        return {"LIBS": [f"python{sys.version_info[0]}{sys.version_info[1]}"],
                "LIBPATH": [os.path.join(sys.base_prefix, "libs")]}  # fmt: skip
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        message = f"{sys.executable} has no shared library, which libtileiras links with"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    folder = sysconfig.get_config_var("LIBDIR")
    return {"LIBS": [f"python{sysconfig.get_config_var('LDVERSION')}", "pthread"], "LIBPATH": [folder],
            "RPATH": [folder]}  # fmt: skip
