"""Precompilation of the package's modules, for processes that cannot, or must not, write bytecode files."""

from __future__ import annotations

import os

import tileiras


def compile_package(folder: str = os.path.dirname(os.path.abspath(tileiras.__file__))) -> int:
    """Compile every module below a folder as an import does; returns the number of modules.

    Files are written even if `PYTHONDONTWRITEBYTECODE` is set.  Raises OSError for a file that cannot be written.
    """
    import compileall
    import py_compile

    count = 0
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            source = os.path.join(path, name)
            # It compiles only outdated modules, and does not report why one failed.
            if not compileall.compile_file(source, quiet=2):
                try:
                    py_compile.compile(source, doraise=True)
                except py_compile.PyCompileError:
                    continue  # importing it reports the error
            count += 1
    return count
