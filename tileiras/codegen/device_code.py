"""Device code of the user's own, which the calls of a kernel reach: PTX, LLVM bitcode, cubins and archives of objects
(`--device-libraries`, `-l`).

A call reaches one function of one library.  PTX is copied into the kernel's module, and bitcode is linked into it, so
that the product is complete; cubins and archives are linked to the cubin.  Parameters and results are passed as CUDA
C++ passes scalars (PTX ISA, "Function Calls"): a function declared `extern "C" __device__` fits.
"""

from __future__ import annotations

import functools
import os
import re
import struct
from collections.abc import Iterable, Mapping, Sequence

from tileiras.codegen import ptx
from tileiras.codegen.bitcode_library import ArtifactStore, BitcodeLibrary
from tileiras.codegen.ptx.link import statements
from tileiras.diagnostics import CompileError, ExitCode, Locatable
from tileiras.processes.helper import HelperDied
from tileiras.support.named_tuple import NamedTuple

PTX, BITCODE, CUBIN, ARCHIVE = "PTX", "bitcode", "cubin", "archive"

_EM_CUDA = 190
"""The machine of a cubin (`e_machine`)."""

_SYMBOL_TABLE, _FUNCTION, _LOCAL = 2, 2, 0
"""SHT_SYMTAB, STT_FUNC, STB_LOCAL (System V gABI, chapter 4)."""


class Signature(NamedTuple):
    """The types of a function's parameters, and of its result or None, as its library spells them."""

    parameters: tuple[str, ...]
    result: str | None


SPELLINGS: Mapping[str, Mapping[str, str]] = {
    PTX: {
        "i1": "b32 u32 s32", "i8": "b32 u32 s32", "i16": "b32 u32 s32", "i32": "b32 u32 s32",
        "i64": "b64 u64 s64", "f32": "b32 f32", "f64": "b64 f64", "ptr": "b64 u64 s64",
    },
    BITCODE: {
        "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f16": "half", "bf16": "bfloat",
        "f32": "float", "f64": "double", "ptr": "ptr",
    },
}  # fmt: skip
"""Kind of library -> type of a call's operand -> the types that pass it.  Integers below 32 bits take 32 in PTX (PTX
Writer's Guide to Interoperability, "Data Representation"); other types have no form of a scalar in PTX."""

TYPES = tuple(SPELLINGS[BITCODE])
"""Types of operands that a call can pass."""


def kind_of(data: bytes) -> str | None:
    """The kind of a library by its content; None for another file."""
    if data.startswith((b"BC\xc0\xde", b"\xde\xc0\x17\x0b")):
        return BITCODE
    if data.startswith(b"\x7fELF") and len(data) >= 64 and struct.unpack_from("<H", data, 18)[0] == _EM_CUDA:
        return CUBIN
    if data.startswith(b"!<arch>\n"):
        return ARCHIVE
    if b"\0" not in data and re.search(rb"^[ \t]*\.version[ \t]+\d", data, re.MULTILINE):
        return PTX
    return None


class Library:
    """One file; `functions` are those that it defines, None for an archive, whose members are not searched."""

    def __init__(self, path: str, data: bytes, kind: str, store: ArtifactStore | None) -> None:
        self.path = path
        self.kind = kind
        self.data = data
        self.bitcode = BitcodeLibrary(path, path, data, store) if kind == BITCODE else None

    @functools.cached_property
    def _signatures(self) -> dict[str, Signature | None] | None:
        if self.kind == ARCHIVE:
            return None
        if self.kind == CUBIN:
            return dict.fromkeys(_functions_of_cubin(self.data))
        return {name: _ptx_signature(text) for name, text in self.ptx_functions.items() if "{" in text}

    @functools.cached_property
    def ptx_functions(self) -> dict[str, str]:
        """The statements of a PTX library by the names that they declare, without entries and debug information."""
        by_name: dict[str, str] = {}
        for piece in ptx.parse(self.data.decode()).pieces:
            for statement in [] if isinstance(piece, ptx.PtxEntry) else statements(piece):
                if not statement.lstrip().startswith((".file", ".section", ".pragma")):
                    by_name[_name_of(statement)] = re.sub(r"(?m)^[ \t]*\.loc[ \t][^\n]*\n", "", statement)
        return by_name

    def defines(self, name: str) -> bool:
        if self.bitcode is not None:
            return self.bitcode.defines(name)
        return self._signatures is not None and name in self._signatures

    def signature(self, name: str) -> Signature | None:
        """The signature of a function that the library defines; None if the library does not state it."""
        if self.bitcode is not None:
            return _bitcode_signature(self.bitcode.definition(name))
        return self._signatures[name] if self._signatures is not None else None


class DeviceCode:
    """The libraries of a compilation, opened at the first call."""

    def __init__(self, paths: Sequence[str], store: ArtifactStore | None = None) -> None:
        self.paths = tuple(paths)
        self._store = store

    @functools.cached_property
    def libraries(self) -> list[Library]:
        """The libraries; raises CompileError for a file that cannot be read or is of no known kind."""
        return [_open(path, self._store) for path in self.paths]

    def of_kind(self, *kinds: str) -> list[Library]:
        return [library for library in self.libraries if library.kind in kinds]

    def find(self, name: str, location: Locatable | None = None) -> Library | None:
        """The library that defines a function, or else an archive, which may; None without both.

        Raises CompileError if several libraries define it, and for bitcode that LLVM cannot read.
        """
        definers = []
        for library in self.libraries:
            try:
                if library.defines(name):
                    definers.append(library)
            except (RuntimeError, HelperDied) as error:
                raise CompileError.at(location, f"library '{library.path}' is no valid bitcode: {error}") from None
        if len(definers) > 1:
            paths = " and ".join(f"'{each.path}'" for each in definers)
            raise CompileError.at(location, f"function '{name}' is defined by {paths}")
        return definers[0] if definers else next(iter(self.of_kind(ARCHIVE)), None)


def _open(path: str, store: ArtifactStore | None) -> Library:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise CompileError.at(None, f"failed to open library '{path}': {error.strerror}") from None
    kind = kind_of(data)
    if kind is None:
        message = f"library '{path}' is neither PTX nor LLVM bitcode, a cubin or an archive of objects"
        raise CompileError.at(None, message)
    return Library(path, data, kind, store)


# ---- signatures ------------------------------------------------------------------------------------------------------

_PARAMETER = re.compile(r"\.(?:param|reg)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr\b[^,]*?\s)?[\w$%]+\s*(\[\d*\])?")


def _name_of(statement: str) -> str:
    """The name that a statement of module scope declares."""
    match = re.search(r"\.func\s+(?:\([^)]*\)\s*)?([\w$%]+)", statement)
    if match is not None:
        return match.group(1)
    words = re.findall(r"[A-Za-z_$%][\w$]*", re.split(r"[\[=;{]", statement, maxsplit=1)[0])
    return words[-1] if words else statement


def _ptx_signature(statement: str) -> Signature | None:
    match = re.search(r"\.func\s+(\([^)]*\)\s*)?[\w$%]+\s*(\([^)]*\))?", statement)
    if match is None:
        return None
    results, parameters = ([_spell(each) for each in _PARAMETER.finditer(text or "")] for text in match.groups())
    return Signature(tuple(parameters), results[0] if results else None)


def _spell(parameter: re.Match[str]) -> str:
    """The type of a parameter; `b8[16]` for a structure, which no scalar fits."""
    return parameter.group(1) + (parameter.group(2) or "")


def _bitcode_signature(definition: str) -> Signature | None:
    head = definition.split("\n", 1)[0]
    match = re.search(r'(\S+)\s+@(?:"[^"]*"|[-\w$.]+)\(', head)
    if match is None:
        return None
    result = match.group(1)
    end, depth = match.end(), 1
    while depth:
        depth += {"(": 1, ")": -1}.get(head[end], 0)
        end += 1
    texts = re.split(r",\s*(?![^(]*\))", head[match.end() : end - 1])
    return Signature(tuple(each.split()[0] for each in texts if each.strip()), None if result == "void" else result)


def _functions_of_cubin(image: bytes) -> Iterable[str]:
    """The global functions that a cubin defines."""
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, number = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, start + size * row) for row in range(number)]
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], section[9]):
            name, info, _, defined = struct.unpack_from("<IBBH", image, at)
            if info & 15 == _FUNCTION and info >> 4 != _LOCAL and defined:
                yield image[strings + name : image.index(b"\0", strings + name)].decode(errors="replace")


# ---- PTX of libraries in the module of a kernel ----------------------------------------------------------------------


def copy_ptx(module: ptx.PtxModule, code: DeviceCode, version_limit: tuple[int, int] | None = None) -> None:
    """Copy the functions of PTX libraries that a module declares, and all that these use, into the module.

    The module's version and target become those that the libraries need.  Raises CompileError for code for another
    GPU, or of a version above `version_limit`.
    """
    names = {name for piece in module.pieces if isinstance(piece, str) for name in map(_name_of, statements(piece))}
    for library in code.of_kind(PTX):
        copies = _closure(library, names)
        if not copies:
            continue
        _require(module, library, version_limit)
        texts = [text for name, text in library.ptx_functions.items() if name in copies]
        for text in texts:
            if re.match(r"\s*\.extern\s+\.shared\b", text):
                message = f"library '{library.path}' uses dynamic shared memory, which belongs to the kernel"
                raise CompileError.at(None, message)
        _drop_declarations(module, copies)
        module.pieces.insert(0, "\n\n" + "\n\n".join(texts) + "\n\n")
        names |= {_name_of(text) for text in texts}


def _closure(library: Library, names: Iterable[str]) -> set[str]:
    """The names of the statements of a library that a module with the declarations `names` reaches."""
    functions = library.ptx_functions
    pending = [name for name in names if "{" in functions.get(name, "")]
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += [word for word in set(re.findall(r"[\w$%]+", functions[name])) if word in functions]
    return reached


def _drop_declarations(module: ptx.PtxModule, names: set[str]) -> None:
    """Remove the declarations of functions that the module now defines."""
    for number, piece in enumerate(module.pieces):
        if isinstance(piece, str) and ".extern .func" in piece:
            lines = [
                text for text in statements(piece)
                if not (text.lstrip().startswith(".extern .func") and _name_of(text) in names)
            ]  # fmt: skip
            module.pieces[number] = "\n\n" + "\n".join(lines) + "\n\n"


def _require(module: ptx.PtxModule, library: Library, version_limit: tuple[int, int] | None) -> None:
    from tileiras.targets.requirements import FORMS, split

    other_module = ptx.parse(library.data.decode())
    (own, own_form), (other, form) = split(module.target), split(other_module.target)
    if other_module.address_size != module.address_size or other > own or form and other != own:
        message = f"library '{library.path}' is for {other_module.target}, the kernel for {module.target}"
        raise CompileError.at(None, message)
    if version_limit is not None and other_module.version > version_limit:
        above = "library '{}' needs PTX {}.{}, but PTX {}.{} was requested"
        message = above.format(library.path, *other_module.version, *version_limit)
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    module.version = max(module.version, other_module.version)
    if FORMS.index(form) > FORMS.index(own_form):
        module.target = other_module.target


def linked_later(text: str, code: DeviceCode) -> list[str]:
    """The paths of the cubins and archives with which a module has to be linked: none if no declared function is
    among theirs."""
    functions = re.findall(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$]+)", text, re.MULTILINE)
    if not functions or not code.paths:
        return []
    linkable = code.of_kind(CUBIN, ARCHIVE)
    if not any(library.kind == ARCHIVE or any(map(library.defines, functions)) for library in linkable):
        return []
    return [os.path.abspath(library.path) for library in linkable]
