"""The package's modules, compiled beside their sources for processes that may not, or must not, write them there."""

from __future__ import annotations

import os

import tileiras


def compile_package(folder: str = os.path.dirname(os.path.abspath(tileiras.__file__))) -> int:
    """Compiles every module below a folder as Python does when it imports it; returns how many there are.

    Also where Python itself writes none, as `PYTHONDONTWRITEBYTECODE` says.  Raises OSError for one that cannot be
    written.
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
            # It compiles what is not compiled yet, and says nothing of why it could not.
            if not compileall.compile_file(source, quiet=2):
                try:
                    py_compile.compile(source, doraise=True)
                except py_compile.PyCompileError:
                    continue  # importing it reports the error
            count += 1
    return count
