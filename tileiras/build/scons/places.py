"""Paths relative to the top of a project, and names of sources."""

from __future__ import annotations

import os
from typing import Any

from tileiras.build import plan
from tileiras.options import CompileOptions


def build_folder(env: Any) -> str:
    """The build directory, absolute or relative to the top; `#build` and `#/build` are accepted."""
    folder = env.subst("$TILE_BUILDDIR")
    return folder[1:].lstrip("/") if folder.startswith("#") else folder


def overrides_folder(env: Any) -> str:
    """The absolute path of the folder of overrides, or an empty string."""
    folder = env.subst("$TILE_OVERRIDES")
    return env.Dir(from_top(folder)).abspath if folder else ""


def variant_folder(env: Any, options: CompileOptions) -> str:
    """The folder of one variant's artifacts, relative to the top or absolute."""
    return plan.folder(build_folder(env), options)


def absolute_path(env: Any, path: str) -> str:
    """The absolute path for a result of `variant_folder` or `plan.stem`."""
    return env.Dir(from_top(path)).abspath


def path_from_top(env: Any, node: Any) -> str:
    """The path of a source as its stage opens it, from the top or absolute; `str` has it from the SConscript's folder
    while that is read."""
    file = node.rfile()
    is_copy = file.is_derived() or file.duplicate or file.srcnode().stat() is None
    return (file if is_copy else file.srcnode()).get_path(env.Dir("#"))


def from_top(path: str) -> str:
    return path if path.startswith("#") or os.path.isabs(path) else "#" + path


def source_name(node: Any) -> str:
    """The name of a source in messages and artifacts: its path from the top, or its base name if outside."""
    return named_from_top(node.srcnode().path)


def named_from_top(path: str) -> str:
    if os.path.isabs(path) or path == os.pardir or path.startswith(os.pardir + os.sep):
        path = os.path.basename(path)
    return path.replace(os.sep, "/")
