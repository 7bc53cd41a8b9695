"""The compiler as a shared library for C programs.

    compiler = env.TileCompiler("build/tileiras")          -> build/libtileiras.so; `tileiras.h` is on CPPPATH
    env.Program("app", ["main.c"], LIBS=["tileiras"], LIBPATH=["build"])

The library embeds the Python that SCons runs on; `TILEIRAS_PYTHON` in a program's environment names another
interpreter of the same version.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

import SCons.Errors

from tileiras import c_folder
from tileiras.build.scons import arguments


def add_method(env: Any) -> None:
    """Add the pseudo-builder to an environment."""

    @arguments.located
    def compiler(env: Any, target: Any) -> list[Any]:
        target = str(arguments.path_or_node("target", target))
        folder = c_folder()
        env.AppendUnique(CPPPATH=[folder])
        own = env.Clone()
        own.AppendUnique(CPPPATH=[sysconfig.get_paths()["include"]], **_python())
        packages = os.path.dirname(os.path.dirname(folder))
        own.Append(CPPDEFINES={"TILEIRAS_PYTHON": _quoted(sys.executable), "TILEIRAS_PACKAGES": _quoted(packages)})
        return own.SharedLibrary(target, own.SharedObject(f"{target}_program", os.path.join(folder, "tileiras.c")))

    env.AddMethod(compiler, "TileCompiler")


def _quoted(text: str) -> str:
    """A C string literal, as a word of a shell's command."""
    return '\\"' + text.replace("\\", "/") + '\\"'


def _python() -> dict[str, list[str]]:
    """Construction variables that link with Python's shared library."""
    if os.name == "nt":
        return {"LIBS": [f"python{sys.version_info[0]}{sys.version_info[1]}"],
                "LIBPATH": [os.path.join(sys.base_prefix, "libs")]}  # fmt: skip
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        raise SCons.Errors.UserError(f"{sys.executable} has no shared library, which env.TileCompiler links with")
    folder = sysconfig.get_config_var("LIBDIR")
    return {"LIBS": [f"python{sysconfig.get_config_var('LDVERSION')}", "pthread"], "LIBPATH": [folder],
            "RPATH": [folder]}  # fmt: skip
