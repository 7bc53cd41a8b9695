"""Where things are: paths from the top of a project, and what sources are called."""

from __future__ import annotations

import os
from typing import Any

from tileiras.build import plan
from tileiras.options import CompileOptions


def build_folder(env: Any) -> str:
    """The build directory, absolute or from the top, which SCons writes as `#build` or `#/build` as well."""
    folder = env.subst("$TILE_BUILDDIR")
    return folder[1:].lstrip("/") if folder.startswith("#") else folder


def overrides_folder(env: Any) -> str:
    """The folder of overrides as an absolute path, empty without one."""
    folder = env.subst("$TILE_OVERRIDES")
    return env.Dir(from_top(folder)).abspath if folder else ""


def variant_folder(env: Any, options: CompileOptions) -> str:
    """Where the artifacts of one variant are, from the top."""
    return plan.folder(build_folder(env), options)


def absolute_path(env: Any, path: str) -> str:
    """The absolute path of what `variant_folder` and `plan.stem` name from the top."""
    return env.Dir(from_top(path)).abspath


def from_top(path: str) -> str:
    return path if path.startswith("#") or os.path.isabs(path) else "#" + path


def source_name(node: Any) -> str:
    """What messages and artifacts call a source: its path from the top, or its bare name when it is elsewhere."""
    return named_from_top(node.srcnode().path)


def named_from_top(path: str) -> str:
    if os.path.isabs(path) or path == os.pardir or path.startswith(os.pardir + os.sep):
        path = os.path.basename(path)
    return path.replace(os.sep, "/")
