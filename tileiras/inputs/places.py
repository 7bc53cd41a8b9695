"""Names of files in rows: relative to the source's folder, the Python environment, the home or the working directory,
so that names agree between checkouts and between machines.

    tiles.json  ../common/shapes.py     from the source's folder
    <environment>/lib/...               from `sys.prefix`
    <home>/.config/...                  from the user's home
    <folder>/tiles.json                 from the working directory: the program named it by a relative path
    /usr/share/...                      anywhere else
"""

from __future__ import annotations

import os
import sys

ENVIRONMENT, HOME, WORKING = "<environment>", "<home>", "<folder>"

SEARCH_PATH = "*"
"""Denotes the import path of the process among the folders of a module's row."""


def home() -> str:
    return os.path.expanduser("~")


def name_of(path: str, base: str, from_home: bool = False) -> str:
    """Return the name of an absolute path in a row; `base` is the source's folder.

    A file whose only common folder with the source is the home, or a folder around it, is named relative to the home if
    the program looked up the home (`from_home`).
    """
    path = os.path.normpath(path)
    environment = sys.prefix
    if is_below(path, environment) and not is_below(base, environment):
        return _join(ENVIRONMENT, path, environment)
    common = _common(path, base)
    own = home()
    below_home = is_below(path, own)
    if common is None or os.path.dirname(common) == common:
        return _join(HOME, path, own) if below_home else path.replace(os.sep, "/")
    if is_below(own, common):  # the home, or a folder around it
        if not below_home:
            return path.replace(os.sep, "/")
        if from_home:
            return _join(HOME, path, own)
    name = os.path.relpath(path, base).replace(os.sep, "/")
    return "./" + name if name.startswith("<") else name


def relative_name(path: str) -> str:
    """Return the name in a row of a path that the program gave relative to the working directory."""
    return f"{WORKING}/{os.path.normpath(path).replace(os.sep, '/')}"


def path_of(name: str, base: str) -> str:
    """Return the absolute path of a name."""
    start, _, rest = name.partition("/")
    if start in (ENVIRONMENT, HOME, WORKING):
        top = sys.prefix if start == ENVIRONMENT else home() if start == HOME else os.getcwd()
        return os.path.normpath(os.path.join(top, rest))
    return os.path.normpath(os.path.join(base, name))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _join(start: str, path: str, top: str) -> str:
    rest = os.path.relpath(path, top).replace(os.sep, "/")
    return start if rest == os.curdir else f"{start}/{rest}"


def _common(path: str, base: str) -> str | None:
    try:
        return os.path.commonpath((path, base))
    except ValueError:
        return None  # another drive
