"""The files that a command writes: the one place that decides every output path of every command.

    outputs = Outputs()
    outputs.reads("k.mlir", "the input")
    product = outputs.writes("k.ptx", "the output")       # UsageError if it is k.mlir or another output
    outputs.publish([(product, data)])

A command declares its inputs and outputs before it reads any of them.  Two names are one file if they resolve to the
same inode or, where the file does not exist yet, to the same name in the same folder: spelling, symbolic and hard links
make no difference.  Inputs that are known only after the program has been read, such as the modules that it imports,
are declared then, which is before the product is written.

A regular file is replaced as a whole, in the folder that a symbolic link leads to, and keeps its permissions and, where
the user may do that, its owner.  Character devices, pipes, sockets and descriptors (`-`, `/dev/stdout`, `/dev/fd/3`)
are written directly, and may be named twice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from typing import IO, Union

from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, ExitCode

STANDARD = "-"
"""Standard input as an input, standard output as an output."""

Content = Union[bytes, Callable[[IO[bytes]], object]]
"""The bytes of a file, or a function that writes them to an open file."""

_OWN_DESCRIPTORS = r"/proc/(\d+)(/task/\d+)?/fd|/dev/fd"
_MOST_LINKS = 40
"""Linux's limit on symbolic links in a path (path_resolution(7))."""
_DISK = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)
"""System errors of a file that can be opened but not written: the vendor's tool has a separate text for them."""


class Output:
    """A file or stream to write: `path` as the user wrote it, `label` as messages call it."""

    __slots__ = ("path", "label", "_descriptor", "_target", "_keys", "_problem")

    def __init__(self, path: str, label: str) -> None:
        self.path = path
        self.label = label
        self._descriptor: int | None = None
        self._target = path
        self._keys: frozenset[tuple] = frozenset()
        self._problem: OSError | None = None
        if path == STANDARD:
            self._keys = _stdout_keys()
            return
        try:
            self._descriptor, self._target = _follow(path)
            if self._descriptor is not None:
                self._keys = _inode(os.fstat(self._descriptor))
            else:
                self._keys = _keys_of(self._target)
        except OSError as error:
            self._problem = error

    @property
    def is_stream(self) -> bool:
        """Whether the output is a device, a pipe, a socket or a descriptor rather than a regular file."""
        if self._is_descriptor:
            return True
        try:
            mode = os.stat(self._target).st_mode
        except OSError:
            return False
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)

    @property
    def _is_descriptor(self) -> bool:
        return self.path == STANDARD or self._descriptor is not None

    def is_same_file(self, other: Output) -> bool:
        """Whether writing one would replace the other.  Descriptors of one file share it: the later text follows."""
        return bool(self._keys & other._keys) and not (self._is_descriptor and other._is_descriptor)

    def holds(self, data: bytes) -> bool:
        """Whether this is a regular file with exactly these bytes, which need not be written again."""
        try:
            if self.is_stream or os.stat(self._target).st_size != len(data):
                return False
            with open(self._target, "rb") as file:
                return file.read() == data
        except OSError:
            return False

    def problem(self) -> OSError | None:
        """Why the file cannot be written, as far as it can be determined without an attempt."""
        try:
            self._check()
        except OSError as error:
            return error
        return None

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem
        if self.is_stream:
            return
        folder = os.path.dirname(self._target)
        try:
            mode = os.stat(self._target).st_mode
        except FileNotFoundError:
            os.stat(folder)
        else:
            if stat.S_ISDIR(mode):
                raise _error(errno.EISDIR)
            if not os.access(self._target, os.W_OK):
                raise _error(errno.EACCES)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _error(errno.EACCES)

    def _write_stream(self, content: Content) -> None:
        if self.path == STANDARD:
            _write_stdout(content)
        elif self._descriptor is not None:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            with open(os.dup(self._descriptor), "wb") as file:
                _fill(file, content)
        elif stat.S_ISSOCK(os.stat(self._target).st_mode):
            import socket

            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(self._target)
                with connection.makefile("wb") as file:
                    _fill(file, content)
        else:
            with open(os.open(self._target, os.O_WRONLY | os.O_NOCTTY), "wb") as file:
                _fill(file, content)

    def _stage(self, content: Content) -> str:
        """Write a file beside the one to replace; returns its name."""
        folder, name = os.path.split(self._target)
        try:
            before = os.stat(self._target)
        except FileNotFoundError:
            before = None
        path = os.path.join(folder, f".{name[:40]}.{os.urandom(6).hex()}.tmp")
        # A user who may not read the old file must not read the new one meanwhile.
        mode = 0o666 if before is None else 0o600
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "wb") as file:
                _fill(file, content)
                file.flush()
                if before is not None:
                    with contextlib.suppress(OSError):
                        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                            os.fchown(descriptor, before.st_uid, before.st_gid)
                    os.fchmod(descriptor, before.st_mode & 0o777)
        except BaseException:
            os.unlink(path)
            raise
        return path


class Outputs:
    """Inputs and outputs of one run of a command."""

    __slots__ = ("_inputs", "_outputs")

    def __init__(self) -> None:
        self._inputs: list[tuple[str, str, frozenset[tuple]]] = []
        self._outputs: list[Output] = []

    def reads(self, path: str | os.PathLike, label: str) -> None:
        """Declare an input; raises UsageError if it is an output.  A file that does not exist is not an input."""
        path = os.fspath(path)
        try:
            keys = _inode(os.fstat(0)) if path == STANDARD else _keys_of(os.path.realpath(path), os.stat(path))
        except OSError:
            return
        if not keys:
            return
        self._inputs.append((path, label, keys))
        for output in self._outputs:
            self._compare(output, self._inputs[-1])

    def writes(self, path: str | os.PathLike, label: str) -> Output:
        """Declare an output; raises UsageError if it is an input or another output.

        A file that cannot be written is reported by `publish`, after all other errors.
        """
        output = Output(os.fspath(path), label)
        for item in self._inputs:
            self._compare(output, item)
        for other in self._outputs:
            if output.is_same_file(other):
                place = output.path if other.path == STANDARD else other.path
                raise UsageError(f"{output.label} and {other.label} are one file: {place}")
        self._outputs.append(output)
        return output

    @staticmethod
    def _compare(output: Output, entry: tuple[str, str, frozenset[tuple]]) -> None:
        path, label, keys = entry
        if keys & output._keys:
            place = output.path if path == STANDARD else path
            raise UsageError(f"{label} and {output.label} are one file: {place}")

    def publish(self, contents: Iterable[tuple[Output, Content]]) -> None:
        """Write outputs, all of them or none: regular files take their places when everything is written.

        Raises CompileError with code 2 for a file that cannot be written, 1 for a disk that is full.
        """
        staged: list[tuple[Output, str]] = []
        contents = list(contents)
        try:
            for output, content in contents:
                with _output_errors(output):
                    output._check()
                    if not output.is_stream:
                        staged.append((output, output._stage(content)))
            for output, content in contents:
                if output.is_stream:
                    with _output_errors(output):
                        output._write_stream(content)
            while staged:
                output, path = staged[0]
                with _output_errors(output):
                    os.replace(path, output._target)
                del staged[0]
        finally:
            for _, path in staged:
                with contextlib.suppress(OSError):
                    os.unlink(path)


@contextlib.contextmanager
def _output_errors(output: Output):
    """Turn a system error on an output into a diagnostic; a pipe whose reader is closed ends the command."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in _DISK:
            raise CompileError.at(None, f"IO failure on output stream: {error.strerror}", ExitCode.USAGE) from None
        message = f"unable to open output file '{output.path}': {error.strerror or error}"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION) from None


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _inode(state: os.stat_result) -> frozenset[tuple]:
    return frozenset({(state.st_dev, state.st_ino)} if stat.S_ISREG(state.st_mode) else ())


def _keys_of(target: str, state: os.stat_result | None = None) -> frozenset[tuple]:
    """The identity of a file, or of a name at which a file can be created, after following links.

    A replaced file gets a new inode, and keeps its name in its folder.
    """
    try:
        state = state or os.stat(target)
    except FileNotFoundError:
        keys: frozenset[tuple] = frozenset()
    else:
        keys = _inode(state)
        if not keys:
            return keys
    folder, name = os.path.split(target)
    with contextlib.suppress(OSError):
        state = os.stat(folder)
        keys |= {(state.st_dev, state.st_ino, name)}
    return keys


def _follow(path: str) -> tuple[int | None, str]:
    """The descriptor of this process that a path names, or the path behind all symbolic links.

    The last part need not exist; raises OSError for a path that can name no file.
    """
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        if name in ("", os.curdir, os.pardir):
            os.stat(path)
            raise _error(errno.EISDIR)
        folder = os.path.realpath(folder or os.curdir)
        match = re.fullmatch(_OWN_DESCRIPTORS, folder) if folder.startswith(("/proc/", "/dev/")) else None
        if match and match[1] in (None, str(os.getpid())) and name.isdigit():
            os.fstat(int(name))
            return int(name), path
        path = os.path.join(folder, name)
        if match:  # another process's; the text of its link is no path where it stands for a pipe
            return None, os.path.realpath(path) if os.path.isfile(path) else path
        if not os.path.islink(path):
            return None, path
        path = os.path.join(folder, os.readlink(path))
    raise _error(errno.ELOOP)


def _stdout_keys() -> frozenset[tuple]:
    try:
        return _inode(os.fstat(sys.stdout.fileno()))
    except (AttributeError, OSError, ValueError):  # closed, or not the process's own
        return frozenset()


def _write_stdout(content: Content) -> None:
    stream = sys.stdout
    if stream is None:
        raise _error(errno.EBADF)
    stream.flush()
    if hasattr(stream, "buffer"):
        _fill(stream.buffer, content)
        stream.buffer.flush()
        return
    import io

    # A program that runs the command in its own process has put something else there.
    text = io.BytesIO()
    _fill(text, content)
    stream.write(text.getvalue().decode("utf-8", "surrogateescape"))


def _fill(file: IO[bytes], content: Content) -> None:
    if isinstance(content, bytes):
        file.write(content)
    else:
        content(file)
