"""The calls of nvJitLink, in the helper process that makes them (`processes.helper`).

The library names its functions by its release (`__nvJitLinkCreate_13_5`, nvJitLink.h) and tells that release itself.

The process may have opened a library at its start, as the compile service has, and live on while a toolkit is replaced
in its place.  So a library is opened anew for each state of its file.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import NamedTuple

CUBIN, PTX, LIBRARY = 1, 2, 6
"""NVJITLINK_INPUT_CUBIN, _PTX and _LIBRARY (nvJitLink.h)."""


class _Library:
    """An opened library.  Raises OSError if it cannot be loaded, AttributeError if it lacks a function."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        self._library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value, minor.value

    def function(self, name: str) -> Callable[..., int]:
        return getattr(self._library, f"__nvJitLink{name}_{self.version[0]}_{self.version[1]}")

    def log(self, handle: ctypes.c_void_p, kind: str) -> str:
        """The `Info` or `Error` log of a link."""
        size = ctypes.c_size_t()
        self.function(f"Get{kind}LogSize")(handle, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value + 1)
        self.function(f"Get{kind}Log")(handle, text)
        return text.value.decode(errors="replace")


class _State(NamedTuple):
    """Identity of the file that a library was opened from, and of its content."""

    device: int
    inode: int
    size: int
    changed: int


_libraries: dict[_State, _Library] = {}


def _open(path: str) -> _Library:
    """The library that lies at a path now; raises OSError and AttributeError as `_Library`."""
    status = os.stat(path)
    state = _State(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    library = _libraries.get(state)
    if library is None:
        library = _libraries[state] = _Library(_name_for_another(path, state))
    return library


def _name_for_another(path: str, state: _State) -> str:
    """A name under which dlopen does not take the library for one that it has opened.

    It goes by names first, those that were asked for, and by device and inode then (glibc, elf/dl-load.c).
    """
    if any(library.device == state.device and library.inode == state.inode for library in _libraries):
        # Written over, not replaced.
        copy = os.memfd_create("library")
        with open(path, "rb") as file:
            while os.sendfile(copy, file.fileno(), None, 1 << 30):
                pass
        path = f"/proc/self/fd/{copy}"
    folder, name = os.path.split(path)
    return os.path.join(folder, *["."] * len(_libraries), name)


def _kind(path: str) -> int:
    with open(path, "rb") as file:
        return LIBRARY if file.read(8) == b"!<arch>\n" else CUBIN


def version(library: str) -> tuple[int, int]:
    """The release of a library; raises RuntimeError if it cannot be determined."""
    try:
        return _open(library).version
    except (OSError, AttributeError) as error:
        raise RuntimeError(str(error)) from None


def link(
    library: str, ptx: str, name: str, options: tuple[str, ...], libraries: tuple[str, ...] = ()
) -> tuple[bytes, str, str]:
    """A cubin, or an empty one, and the library's logs of information and errors; `libraries` are the paths of cubins
    and archives to link.

    Raises RuntimeError if the file is not an nvJitLink library.
    """
    try:
        opened = _open(library)
        create = opened.function("Create")
    except (OSError, AttributeError) as error:
        raise RuntimeError(str(error)) from None
    handle = ctypes.c_void_p()
    words = (ctypes.c_char_p * len(options))(*(word.encode() for word in options))
    failed = create(ctypes.byref(handle), len(options), words)
    data = ptx.encode()
    try:
        failed = failed or opened.function("AddData")(handle, PTX, data, ctypes.c_size_t(len(data)), name.encode())
        for path in libraries:
            failed = failed or opened.function("AddFile")(handle, _kind(path), path.encode())
        failed = failed or opened.function("Complete")(handle)
        result, errors = (opened.log(handle, kind) if handle else "" for kind in ("Info", "Error"))
        cubin = b""
        if not failed:
            size = ctypes.c_size_t()
            opened.function("GetLinkedCubinSize")(handle, ctypes.byref(size))
            buffer = ctypes.create_string_buffer(size.value)
            failed = opened.function("GetLinkedCubin")(handle, buffer)
            cubin = b"" if failed else buffer.raw
        return cubin, result, errors or (f"nvJitLink gave error {failed}" if failed else "")
    finally:
        if handle:
            opened.function("Destroy")(ctypes.byref(handle))
