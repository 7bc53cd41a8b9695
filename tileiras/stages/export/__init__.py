"""cuTile Python -> Tile IR bytecode, by the front end that the user has installed; no GPU is needed.

Out: the bytes of NAME.tileirbc, and NAME.parameters.json, which has for each kernel the names of its parameters.
The file lists the compiled kernels (see `signatures`).  It is imported with its own folder first on the path, like a
script; the files and variables that it reads meanwhile count as its inputs (see `recording`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from typing import Any, Callable, Iterator, Mapping

import tileiras
from tileiras import stages
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.inputs import FILE, FOLDER, UNSEEN, VARIABLE, Input, kinds, places, with_title
from tileiras.ir import FileLineColLoc
from tileiras.ir.encoding import check_encoding
from tileiras.stages import StageContext, StageOptions, StageResult
from tileiras.support import extras
from tileiras.support.lazy import lazy_names
from tileiras.targets.cpu import is_cpu

from . import loaded
from .events import record
from .recording import Recording

GPU_OF_CPUS = "sm_100"
"""The GPU that the front end is given for a CPU: one that has all element types."""

EXPORT_NAME = "TILEIRAS_EXPORT"

INPUTS_NAME = "TILEIRAS_INPUTS"
"""The list of dependencies in a file that uses inputs which cannot be compared, such as a clock."""

PROCESS = threading.Lock()
"""Held while the front end works: the import path, the loaded modules and its writer belong to the process."""

_OWN_PACKAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..")) + os.sep
"""Frames in here never locate a user's error, even where the compiler's own tree holds the kernel."""

_FRONT_END_PLACES = ("_CACHE_DIR", "_CACHE_SIZE", "_TEMP_DIR", "_LOGS", "_TIMEOUT_SEC", "_CRASH_DUMP")
"""Variables of the front end about its own cache, folders and messages (`cuda.tile._context`)."""

MISSING_FRONT_END = f"cuTile Python is not installed: {extras.install('cuda-tile')}"


def front_end_identity(options: StageOptions) -> str:
    """The front end's version and the variables that it reads, which are part of this stage's key."""
    from importlib import metadata

    try:
        words = [f"cuda-tile {metadata.version('cuda-tile')}"]
    except metadata.PackageNotFoundError:
        return "cuda-tile missing"
    names = sorted(name for name in os.environ if "CUDA_TILE_" in name and not name.endswith(_FRONT_END_PLACES))
    return " ".join(words + [f"{name}={os.environ[name]}" for name in names])


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    """`source` is the file's text.  Raises CompileError: code 2 without the front end, 3 for errors in the file."""
    load_front_end()
    place = Place(source, context)
    with PROCESS, _imported(place) as namespace:
        requests = _requests(namespace, place)
        data = export_requests(requests, options, place, _export_lines(place.text))
        names = _slot_names(requests)
    return StageResult(data, {".parameters.json": (json.dumps(names, indent=2) + "\n").encode()})


def _slot_names(requests: list[tuple[Any, list[Any], str]]) -> dict[str, list[str]]:
    """The names of every compiled kernel's parameters, of those kernels that let them be seen."""
    slot_names = {}
    for kernel, signatures, _ in requests:
        names = _parameter_names(kernel)
        for signature in signatures if names is not None else ():
            slots = stages.export.signatures.slot_names(names, signature.parameters)
            if slots is not None:
                slot_names[signature.symbol] = slots
    return slot_names


def load_front_end() -> None:
    """Raise CompileError (code 2) where the front end is not installed."""
    try:
        import cuda.tile  # noqa: F401
        import cuda.tile.compilation  # noqa: F401
    except ImportError as error:
        raise CompileError.at(None, f"{MISSING_FRONT_END} ({error})", ExitCode.CONFIGURATION) from None


class Place:
    """The file: on disk, in messages, and the tree that it belongs to."""

    __slots__ = ("text", "name", "path", "directory", "root", "context")

    def __init__(self, source: bytes, context: StageContext) -> None:
        self.context = context
        self.name = context.source_name
        path = os.path.realpath(context.source_path or context.source_name)
        self.path = path
        self.directory = os.path.dirname(path)
        relative = self.name.replace("/", os.sep)
        # The root of the tree: the name in messages is relative to it.
        self.root = path[: -len(relative)].rstrip(os.sep) if path.endswith(os.sep + relative) else self.directory
        self.root = self.root or os.sep
        check_encoding(source, self.name)
        self.text = source.decode("utf-8")

    def location(self, filename: str, line: int, column: int) -> FileLineColLoc:
        if os.path.realpath(filename) == self.path:
            filename = self.name
        return FileLineColLoc(filename, line, column)

    def error(self, line: int, column: int, message: str) -> CompileError:
        return CompileError.at(FileLineColLoc(self.name, line, column), message, ExitCode.INVALID_INPUT)


@contextlib.contextmanager
def _imported(place: Place) -> Iterator[dict[str, Any]]:
    """Yield the namespace of the file's module; then unload the user's modules that it imported.

    A later export in the same process must read those files again.  Loaded modules of the same names (from another
    tree, or of the build's own scripts) are hidden meanwhile.
    """
    import importlib.util
    import linecache
    import types

    linecache.checkcache()
    try:
        code = compile(place.text, place.path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise place.error(error.lineno or 1, error.offset or 1, f"{type(error).__name__}: {error.msg}") from None
    # The front end reads the text of functions back through inspect, which wants the module to be known by name.
    name = f"_tileiras_kernel_{os.path.splitext(os.path.basename(place.path))[0]}"
    module = types.ModuleType(name)
    module.__file__ = place.path
    module.__spec__ = importlib.util.spec_from_file_location(name, place.path)
    hidden = {key: sys.modules.pop(key) for key in loaded.with_names_of(place.directory)}
    # Finders remember folders, and notice a new file there by the folder's time only.
    importlib.invalidate_caches()
    before, earlier = dict(sys.modules), loaded.Hidden()
    reads = Recording(place.path, earlier)
    path, no_bytecode = list(sys.path), sys.dont_write_bytecode
    sys.modules[name] = module
    sys.dont_write_bytecode = True
    try:
        try:
            with record(reads, place.text.encode()):
                sys.path.insert(0, place.directory)
                # The user's code may raise anything; it is reported where it happened in their file.
                try:
                    exec(code, module.__dict__)
                except Exception as error:
                    raise _located(error, place) from None
                yield module.__dict__
        finally:
            sys.path[:] = path
            place.context.inputs = reads.rows()  # even after an error, for a watch
        _declare(place, reads, _declared_inputs(module.__dict__, place))
    finally:
        sys.path[:], sys.dont_write_bytecode = path, no_bytecode
        for key in loaded.users([key for key, own in sys.modules.items() if before.get(key) is not own]):
            del sys.modules[key]
        sys.modules.pop(name, None)
        sys.modules.update({**hidden, **earlier.modules})


def _declared_inputs(namespace: dict[str, Any], place: Place) -> list[Input] | None:
    """The inputs that the file declares in TILEIRAS_INPUTS; None without it."""
    names = namespace.get(INPUTS_NAME)
    if names is None:
        return None
    at = _assigned_at(place.text, INPUTS_NAME)
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise place.error(*at, f"{INPUTS_NAME} is a list of files, folders that end with / and $VARIABLES")
    declared_inputs = []
    for name in names:
        kind = VARIABLE if name.startswith("$") else FOLDER if name.endswith("/") else FILE
        path = name[1:] if kind == VARIABLE else places.name_of(os.path.join(place.directory, name), place.directory)
        try:
            with_title(f"{kind} {path}")
        except ValueError:
            raise place.error(*at, f"{INPUTS_NAME}: '{name}' names no file, folder or variable") from None
        declared_inputs.append(kinds.observe(kind, path, place.directory))
    return declared_inputs


def _declare(place: Place, reads: Recording, inputs: list[Input] | None) -> None:
    """Add the declared inputs; without a declaration, warn once of each use that no later run can compare.

    A declaration replaces the uses that cannot be observed.
    """
    if inputs is not None:
        rows = [*(row for row in place.context.inputs if row.kind != UNSEEN), *inputs]
        place.context.inputs = list({row.title: row for row in rows}.values())
    else:
        for use in reads.unseen.values():
            message = f"{use.origin} is no input that can be compared, so that the result is not stored"
            hint = Diagnostic.note(None, f"{INPUTS_NAME} in the file declares the inputs of the result")
            at = place.location(use.file, use.line, use.column)
            place.context.engine.emit(Diagnostic(Severity.WARNING, at, message, [hint]))


def _requests(namespace: dict[str, Any], place: Place) -> list[tuple[Any, list[Any], str]]:
    """(kernel, signatures, name of the first) in order of first mention; signatures of one kernel go together."""
    import cuda.tile as ct

    lines = _export_lines(place.text)
    here = lines.get(None, (1, 1))
    exports = namespace.get(EXPORT_NAME)
    if exports is None:
        raise place.error(
            *here, f"no kernels to export: define {EXPORT_NAME} = {{\"name\": (kernel, \"f32[?]\", ...), ...}}"
        )
    if not isinstance(exports, dict) or not exports:
        raise place.error(*here, f"{EXPORT_NAME} must be a dictionary from names to (kernel, parameters...)")
    requests: dict[int, tuple[Any, list[Any], str]] = {}
    for name, value in exports.items():
        at = lines.get(name, here)
        parts = value if isinstance(value, tuple) else tuple(value) if isinstance(value, list) else (value,)
        if not parts or not isinstance(parts[0], ct.kernel):
            raise place.error(*at, f"'{name}': expected a kernel (a function with @ct.kernel) first")
        signature = checked_signature(name, parts[0], parts[1:], place, at)
        requests.setdefault(id(parts[0]), (parts[0], [], name))[1].append(signature)
    return list(requests.values())


def checked_signature(name: str, kernel: Any, parameters: tuple, place: Place, at: tuple[int, int]) -> Any:
    """The front end's signature for the compiled kernel `name`.

    Raises CompileError (code 3) at line and column `at` for a name or parameters that the kernel cannot have.
    """
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise place.error(*at, f"{name!r} is not a name that a kernel can have: letters, digits and _ only")
    try:
        signature = stages.export.signatures.kernel_signature(name, parameters)
    except stages.export.signatures.SignatureError as error:
        raise place.error(*at, f"'{name}': {error}") from None
    parameter_names = _parameter_names(kernel)
    if parameter_names is not None and len(signature.parameters) != len(parameter_names):
        names, got = ", ".join(parameter_names), len(signature.parameters)
        raise place.error(*at, f"'{name}': the kernel has {len(parameter_names)} parameters ({names}), got {got}")
    return signature


def _parameter_names(kernel: Any) -> list[str] | None:
    """Names of the parameters of the function under @ct.kernel; None if the front end hides it or if it is variadic."""
    import inspect

    function = getattr(kernel, "_pyfunc", None)
    parameters = inspect.signature(function).parameters.values() if function is not None else ()
    is_positional = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    return [parameter.name for parameter in parameters] if function is not None and is_positional else None


def _assigned_at(text: str, name: str) -> tuple[int, int]:
    """Line and column of the first assignment to a name in a module's text."""
    import ast

    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.lineno, node.col_offset + 1
    return 1, 1


def _export_lines(text: str) -> dict[str | None, tuple[int, int]]:
    """Positions of TILEIRAS_EXPORT (key None) and of its string keys: (line, column) from 1."""
    import ast

    export_lines: dict[str | None, tuple[int, int]] = {}
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not any(isinstance(t, ast.Name) and t.id == EXPORT_NAME for t in targets):
            continue
        export_lines[None] = (node.lineno, node.col_offset + 1)
        value = getattr(node, "value", None)
        for key in value.keys if isinstance(value, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                export_lines[key.value] = (key.lineno, key.col_offset + 1)
    return export_lines


def export_requests(
    requests: list[tuple[Any, list[Any], str]], options: StageOptions, place: Place,
    lines: Mapping[str | None, tuple[int, int]],
) -> bytes:  # fmt: skip
    """One bytecode file with all signatures of all kernels: of each the kernel, its signatures, and the name of the
    first, by which `lines` has the place for errors that have no other."""
    import io

    from cuda.tile.compilation import export_kernel

    output = io.BytesIO()
    functions = sum(len(signatures) for _, signatures, _ in requests)
    writer = _shared_writer(functions) if len(requests) > 1 else contextlib.nullcontext()
    with _lines_of_callers(), _messages_alone(), writer as shared:
        for kernel, signatures, name in requests:
            output.seek(0)
            output.truncate()
            # The front end reports the user's mistakes by exceptions of several families, its own bugs by others.
            try:
                export_kernel(
                    kernel,
                    signatures,
                    output,
                    gpu_code=GPU_OF_CPUS if is_cpu(options.gpu_name) else options.gpu_name,
                    output_format="tileir_bytecode",
                    bytecode_version=options.bytecode_version or _newest_version(),
                )
            except Exception as error:
                raise _located(error, place, lines.get(name)) from None
    data = bytes(shared()) if shared is not None else output.getvalue()
    return tileiras.bytecode.relative_paths.make_paths_relative(data, place.root)


def _newest_version() -> str | None:
    """The newest version of the format that the front end writes and the compiler reads: operations and options of
    kernels need their version or a newer one.  None leaves the choice to a front end that has other names for them."""
    try:
        import cuda.tile._compile as front_end
        from cuda.tile._bytecode import BytecodeVersion
    except ImportError:
        return None
    # Newer front ends have versions for development only besides those of releases.
    released = getattr(front_end, "_all_bytecode_versions", lambda: BytecodeVersion)
    versions = {member.as_string() for member in released()}
    newest_first = reversed(tileiras.bytecode.versions.SUPPORTED)
    return next((str(version) for version in newest_first if str(version) in versions), None)


@contextlib.contextmanager
def _shared_writer(functions: int) -> Iterator[Callable[[], bytearray]]:
    """Make consecutive exports write into one file; yield a function that returns its bytes after the context.

    The front end exports one kernel at a time, each time through `write_bytecode`.
    """
    import cuda.tile._bytecode as front_end

    original = front_end.write_bytecode
    buffer = bytearray()
    stack = contextlib.ExitStack()
    opened: list[Any] = []

    @contextlib.contextmanager
    def write(num_functions: int, buf: bytearray, version: Any) -> Iterator[Any]:
        if not opened:
            opened.append(stack.enter_context(original(num_functions=functions, buf=buffer, version=version)))
        yield opened[0]

    front_end.write_bytecode = write
    try:
        yield lambda: buffer
        stack.close()
    finally:
        front_end.write_bytecode = original


@contextlib.contextmanager
def _lines_of_callers() -> Iterator[None]:
    """Place operations that the front end's own functions make, such as methods of tiles, at the user's call: reports
    and profiles would have lines of a package that the user neither wrote nor can change."""
    import cuda.tile
    import cuda.tile._ir2bytecode as front_end

    debug_info = getattr(front_end, "DebugAttrMap", None)
    original = getattr(debug_info, "get_debugattr", None)
    if original is None:
        yield
        return
    package = os.path.join(os.path.dirname(os.path.abspath(cuda.tile.__file__)), "")

    def of_caller(self: Any, location: Any) -> Any:
        while location.call_site is not None and location.filename.startswith(package):
            location = location.call_site
        return original(self, location)

    debug_info.get_debugattr = of_caller
    try:
        yield
    finally:
        debug_info.get_debugattr = original


@contextlib.contextmanager
def _messages_alone() -> Iterator[None]:
    """Make `str` of a front-end error its message alone: an error quoted in another would include its location, or
    `Unknown location`, and the diagnostic has a location of its own."""
    try:
        from cuda.tile._exception import TileError
    except ImportError:
        yield
        return
    original = TileError.__str__
    TileError.__str__ = lambda self: str(self.message)
    try:
        yield
    finally:
        TileError.__str__ = original


def _located(error: BaseException, place: Place, fallback: tuple[int, int] | None = None) -> CompileError:
    """The diagnostic for an exception from the user's file or from the front end working on it."""
    loc = getattr(error, "loc", None)
    notes: list[Diagnostic] = []
    if loc is not None and getattr(loc, "filename", None):
        message = str(getattr(error, "message", "")) or str(error)
        at = place.location(loc.filename, loc.line, loc.col + 1)
        caller = getattr(loc, "call_site", None)
        while caller is not None and getattr(caller, "filename", None):
            called_at = place.location(caller.filename, caller.line, caller.col + 1)
            notes.append(Diagnostic.note(called_at, "called from here"))
            caller = getattr(caller, "call_site", None)
    else:
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        at = _traceback_location(error, place) or FileLineColLoc(place.name, *(fallback or (1, 1)))
    return CompileError([Diagnostic(Severity.ERROR, at, message.strip(), notes)], ExitCode.INVALID_INPUT)


def _traceback_location(error: BaseException, place: Place) -> FileLineColLoc | None:
    """The innermost frame in the user's tree, installed packages excluded."""
    import traceback

    if isinstance(error, SyntaxError) and error.filename and os.path.exists(error.filename):
        return place.location(error.filename, error.lineno or 1, error.offset or 1)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = os.path.realpath(frame.filename)
        inside = file.startswith(place.root.rstrip(os.sep) + os.sep) and "site-packages" not in file.split(os.sep)
        if inside and not file.startswith(_OWN_PACKAGE):
            return place.location(file, frame.lineno or 1, (frame.colno or 0) + 1)
    return None


__getattr__ = lazy_names(__name__, globals())
