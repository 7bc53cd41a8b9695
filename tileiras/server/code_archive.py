"""The compiler's compiled modules in one file of the user's store.

Python keeps compiled modules beside their sources, and compiles them in every process where it may not: with
`PYTHONDONTWRITEBYTECODE` set, and in an installation that cannot be written to.  Where it may, finding and opening some
300 files takes a process a tenth of what a small kernel costs.  So commands and the service take the modules of this
package from `code/NAME` in the store's directory; what is not there, or of a source that has changed since, is loaded
as usual, and is there for the next process.

NAME stands for the interpreter, its version and options that make other code, and the package's folder.  The file is

    MAGIC, bytes of the index, xxh3_64 of the index, index, code of the modules

with the index as marshalled: what NAME stands for, and for each module its path, whether it is a package, size, time
and inode of its source, and place, length and xxh3_64 of its marshalled code.  Code is executed as it stands there.  So
the folder has to be this user's with mode 0700, the file this user's and writable for nobody else; what has been
damaged does not have its digest, and counts as absent.
"""

from __future__ import annotations

import _frozen_importlib_external as external
import contextlib
import marshal
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

from tileiras.files import RACY_NS, FileState, file_state, store_directory
from tileiras.local_socket import open_private_folder

MAGIC = b"tilecode\x01"
_LENGTHS = 16
"""Bytes of an integer and a digest behind the magic ones."""

FOLDER = "code"

KEPT_SECONDS = 30 * 86_400
"""Archives of other installations that have not been written for so long go when one is written."""

Source = tuple[str, bool, FileState]
"""Of a module: the path of its source, whether it is a package, and the source's state."""

Index = dict[str, tuple[Source, int, int, int]]
"""By module: its source, and place (from behind the index), length and digest of its code."""


def use(package: str) -> Archive | None:
    """Has the modules of the installed `package` come from the user's archive from now on; the caller calls
    `Archive.save` when they are loaded.

    None where there is no such archive: where nothing is to be kept in a store (`TILEIRAS_CACHE_DIR`,
    `TILEIRAS_CACHE_MODE`), or the system has no users.
    """
    mode = os.environ.get("TILEIRAS_CACHE_MODE")
    directory = store_directory() if mode != "off" else None
    path = sys.modules[package].__file__
    if directory is None or path is None or not hasattr(os, "geteuid") or os.geteuid() != os.getuid():
        return None
    archive = Archive(directory, package, os.path.dirname(os.path.abspath(path)), writable=mode != "read-only")
    sys.meta_path.insert(0, archive)
    return archive


@contextlib.contextmanager
def used(package: str) -> Iterator[None]:
    """`use` for the length of a block, at whose end it is saved."""
    archive = use(package)
    yield
    if archive is not None:
        archive.save()
        archive.close()


def identity(folder: str) -> str:
    """What decides about the code of a module besides its source."""
    options = (sys.flags.optimize, "no_debug_ranges" in sys._xoptions or "PYTHONNODEBUGRANGES" in os.environ)
    return repr((sys.implementation.cache_tag, external.MAGIC_NUMBER, sys.version, options, folder))


class Archive:
    """A finder (`sys.meta_path`) of the modules of one package."""

    def __init__(self, directory: str, package: str, folder: str, writable: bool) -> None:
        """`directory` is the store's, `folder` the package's."""
        import xxhash

        self._package = package
        self._prefix = package + "."
        self._folder = os.path.join(directory, FOLDER)
        self._identity = identity(folder)
        self._name = xxhash.xxh3_64_hexdigest(self._identity.encode())
        self._path = os.path.join(self._folder, self._name)
        self._writable = writable
        self._owner = os.getpid()
        self._index: Index = {}
        self._start = 0
        self._file = -1
        self._added: dict[str, tuple[Source, CodeType]] = {}
        try:
            self._open()
        except (OSError, ValueError, EOFError, TypeError):
            self._index = {}

    def close(self) -> None:
        """Has modules come from their own files again."""
        sys.meta_path.remove(self)
        if self._file >= 0:
            os.close(self._file)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Raises OSError, or what marshal raises, where there is no archive that may be used."""
        import xxhash

        self._file = _opened(self._folder, self._name)
        head = os.pread(self._file, len(MAGIC) + _LENGTHS, 0)
        length = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 8], "little")
        digest = int.from_bytes(head[len(MAGIC) + 8 :], "little")
        if not head.startswith(MAGIC) or length > os.fstat(self._file).st_size:
            raise ValueError("no archive")
        data = os.pread(self._file, length, len(head))
        if xxhash.xxh3_64_intdigest(data) != digest:
            raise ValueError("damaged")
        identity, index = marshal.loads(data)
        if identity != self._identity:
            raise ValueError("another interpreter's")
        self._start = len(head) + length
        self._index = index

    def _code(self, name: str) -> CodeType | None:
        """The code of a module that has an entry; None where that is damaged."""
        import xxhash

        _, place, length, digest = self._index[name]
        try:
            data = os.pread(self._file, length, self._start + place)
        except OSError:
            return None
        if len(data) != length or xxhash.xxh3_64_intdigest(data) != digest:
            return None
        return marshal.loads(data)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As importlib asks for it; None for modules of others."""
        if not name.startswith(self._prefix):
            return None
        entry = self._index.get(name)
        if entry is not None and file_state(entry[0][0]) == entry[0][2]:
            code = self._code(name)
            if code is not None:
                return self._spec(name, _Loader(name, entry[0][0], code), entry[0][1])
        found = external.PathFinder.find_spec(name, path, target)
        if found is None or type(found.loader) is not external.SourceFileLoader or not found.origin:
            return found
        # Asked before the source is read: an edit meanwhile makes it a state that never matches.
        state, is_package = file_state(found.origin), found.submodule_search_locations is not None
        if state is None:
            return found
        return self._spec(name, _AddingLoader(name, (found.origin, is_package, state), self), is_package)

    def _spec(self, name: str, loader: _Loader | _AddingLoader, is_package: bool) -> ModuleSpec:
        spec = ModuleSpec(name, loader, origin=loader.path, is_package=is_package)
        spec.has_location = True
        spec.cached = self._path
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(loader.path)]
        return spec

    # ---- writing -----------------------------------------------------------------------------------------------------

    def add(self, name: str, source: Source, code: CodeType) -> None:
        """Notes a module that was not in the archive, unless its source is so new that it may change and keep its
        time."""
        if not 0 <= time.time_ns() - source[2][1] < RACY_NS:
            self._added[name] = source, code

    def save(self) -> None:
        """Writes what was added since; nothing is said where that fails.  Two processes that do so at once keep what
        one of them has: the other's is added by the next one."""
        if not self._added or not self._writable or os.getpid() != self._owner:
            return
        modules = {name: (source, marshal.dumps(code)) for name, (source, code) in self._added.items()}
        self._added = {}
        for name, (source, *_) in self._index.items():
            if name not in modules and file_state(source[0]) == source[2] and (code := self._code(name)) is not None:
                modules[name] = source, marshal.dumps(code)
        try:
            _write(self._folder, self._name, _packed(self._identity, modules))
        except OSError:
            pass  # a full disk, or a folder of somebody else's


class _Loader(external.SourceFileLoader):
    """Of a module that the archive has."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._compiled = code

    def get_code(self, fullname: str) -> CodeType:
        return self._compiled


class _AddingLoader(external.SourceFileLoader):
    """Of a module that the archive does not have yet."""

    def __init__(self, name: str, source: Source, archive: Archive) -> None:
        super().__init__(name, source[0])
        self._source = source
        self._archive = archive

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        if code is not None:
            self._archive.add(fullname, self._source, code)
        return code


# ---- the file --------------------------------------------------------------------------------------------------------


def _opened(folder: str, name: str) -> int:
    """A descriptor of an archive that this user alone can write; raises OSError."""
    within = open_private_folder(folder)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    finally:
        os.close(within)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        os.close(file)
        raise PermissionError(f"{name} is not a file that this user alone can write")
    return file


def _packed(identity: str, modules: Mapping[str, tuple[Source, bytes]]) -> bytes:
    import xxhash

    index: Index = {}
    place = 0
    for name, (source, data) in sorted(modules.items()):
        index[name] = (source, place, len(data), xxhash.xxh3_64_intdigest(data))
        place += len(data)
    head = marshal.dumps((identity, index))
    lengths = len(head).to_bytes(8, "little") + xxhash.xxh3_64_intdigest(head).to_bytes(8, "little")
    return b"".join((MAGIC, lengths, head, *(data for _, (_, data) in sorted(modules.items()))))


def _write(folder: str, name: str, data: bytes) -> None:
    """Puts an archive in the place of the one that is there, and removes old ones; raises OSError."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    within = open_private_folder(folder)
    draft = f"{name}.{os.getpid()}.tmp"
    try:
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=within)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.close(file)
            os.rename(draft, name, src_dir_fd=within, dst_dir_fd=within)
        except BaseException:
            os.unlink(draft, dir_fd=within)
            raise
        for other in os.listdir(within):
            if os.stat(other, dir_fd=within, follow_symlinks=False).st_mtime < time.time() - KEPT_SECONDS:
                os.unlink(other, dir_fd=within)
    finally:
        os.close(within)
