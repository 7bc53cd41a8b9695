"""The builder of the compiler as a shared library.

    compiler = env.TileCompiler("build/tileiras")          -> build/libtileiras.so; `tileiras.h` is on CPPPATH
    env.Program("app", ["main.c"], LIBS=["tileiras"], LIBPATH=["build"])
"""

from __future__ import annotations

import os
import sysconfig
from typing import Any

import SCons.Errors

from tileiras import c_folder
from tileiras.build import compiler_library
from tileiras.build.scons import arguments
from tileiras.diagnostics import CompileError


@arguments.locate
def tile_compiler(env: Any, target: Any) -> list[Any]:
    """Declare the shared library `target`."""
    target = str(arguments.path_or_node("target", target))
    folder = c_folder()
    env.AppendUnique(CPPPATH=[folder])
    own = env.Clone()
    try:
        own.AppendUnique(CPPPATH=[sysconfig.get_paths()["include"]], **compiler_library.link_variables())
    except CompileError as error:
        raise SCons.Errors.UserError(error.diagnostics[0].message) from None
    own.Append(CPPDEFINES={name: _quote(value) for name, value in compiler_library.places().items()})
    own.Append(LINKFLAGS=compiler_library.version_flags())
    return own.SharedLibrary(target, own.SharedObject(f"{target}_program", os.path.join(folder, "tileiras.c")))


def _quote(text: str) -> str:
    """A C string literal, as a word of a shell's command."""
    return f'\\"{text}\\"'
