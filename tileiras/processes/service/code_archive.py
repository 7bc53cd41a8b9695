"""An archive of the compiler's bytecode in one file of the user's store.

Python stores bytecode beside the sources; if it may not (`PYTHONDONTWRITEBYTECODE`, a read-only installation), it
compiles every module in each process.  Otherwise, finding and opening some 300 files takes a tenth of the time of a
small kernel.  Commands and the service therefore load the modules of this package from `code/NAME` in the store's
directory; a module that is absent, or whose source has changed, is loaded as usual and added for the next process.

NAME is a digest of the interpreter, its version, its options that change bytecode, and the package's folder.  The file
consists of

    MAGIC, bytes of the index, xxh3_64 of the index, index, code of the modules

where the index is marshalled: the text whose digest is NAME, and for each module its path, whether it is a
package, size, time and inode of its source, and offset, length and xxh3_64 of its marshalled code.  The code is
executed without further checks.  The folder must therefore belong to this user with mode 0700, and the file belong to
this user and be writable for no other; a damaged entry does not match its digest and counts as absent.
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

from tileiras.processes.sockets import open_private_folder
from tileiras.support.files import RACY_NS, FileState, file_state, store_directory

MAGIC = b"tilecode\x01"
_LENGTHS = 16
"""Bytes of the length and the digest behind MAGIC."""

FOLDER = "code"

KEPT_SECONDS = 30 * 86_400
"""Archives of other installations that were not written for so long are removed when one is written."""

Source = tuple[str, bool, FileState]
"""The path of a module's source, whether the module is a package, and the state of the source."""

Index = dict[str, tuple[Source, int, int, int]]
"""Module name -> its source, and offset (from the end of the index), length and digest of its code."""


def use(package: str) -> Archive | None:
    """Load the modules of the installed `package` from the user's archive from now on; the caller calls `Archive.save`
    when they are loaded.

    Returns None if archives are disabled, as the store is (`TILEIRAS_CACHE_DIR`, `TILEIRAS_CACHE_MODE`), or if the
    system has no user ids or the effective one differs from the real one.
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
def in_use(package: str) -> Iterator[None]:
    """Apply `use` in a block; save the archive at its end."""
    archive = use(package)
    yield
    if archive is not None:
        archive.save()
        archive.close()


def identity(folder: str) -> str:
    """Return the properties that determine the bytecode of a module besides its source."""
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
        """Load modules from their own files again."""
        sys.meta_path.remove(self)
        if self._file >= 0:
            os.close(self._file)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the archive; raises OSError, ValueError, or marshal's exceptions if no usable archive exists."""
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
        """Return the code of a module that has an entry; None if it is damaged."""
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
        """Implement importlib's MetaPathFinder; None for modules of other packages."""
        if not name.startswith(self._prefix):
            return None
        entry = self._index.get(name)
        if entry is not None and file_state(entry[0][0]) == entry[0][2]:
            code = self._code(name)
            if code is not None:
                return self._spec(name, _Loader(name, entry[0][0], code), entry[0][1])
        spec = external.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not external.SourceFileLoader or not spec.origin:
            return spec
        # Must precede the reading of the source: after an edit in between, the recorded state never matches.
        state, is_package = file_state(spec.origin), spec.submodule_search_locations is not None
        if state is None:
            return spec
        return self._spec(name, _AddingLoader(name, (spec.origin, is_package, state), self), is_package)

    def _spec(self, name: str, loader: _Loader | _AddingLoader, is_package: bool) -> ModuleSpec:
        spec = ModuleSpec(name, loader, origin=loader.path, is_package=is_package)
        spec.has_location = True
        spec.cached = self._path
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(loader.path)]
        return spec

    # ---- writing -----------------------------------------------------------------------------------------------------

    def add(self, name: str, source: Source, code: CodeType) -> None:
        """Record a module that was not in the archive, unless its source is so new that another change could keep the
        modification time."""
        if not 0 <= time.time_ns() - source[2][1] < RACY_NS:
            self._added[name] = source, code

    def save(self) -> None:
        """Write the archive with the added modules; failures are ignored silently.  If two processes write at once, the
        additions of one are lost, and the next process adds them again."""
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
            pass  # a full disk, or a folder of another user


class _Loader(external.SourceFileLoader):
    """Loader of a module that is in the archive."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._compiled = code

    def get_code(self, fullname: str) -> CodeType:
        return self._compiled


class _AddingLoader(external.SourceFileLoader):
    """Loader of a module that is not in the archive yet; adds it."""

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
    """Open an archive that only this user can write; return the descriptor.  Raises OSError."""
    within = open_private_folder(folder)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    finally:
        os.close(within)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
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
    """Replace the archive atomically, and remove old archives; raises OSError."""
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
