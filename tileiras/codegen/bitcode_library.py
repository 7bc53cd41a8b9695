"""Libraries of LLVM bitcode, split once so that a kernel is linked only with the few functions that it calls.

Parsing a library as large as libdevice costs 30-60 ms, linking and pruning it 18 ms more, and optimising the
remaining functions most of all.  So it is disassembled once per (digest, LLVM version) and split into its top-level
definitions; the split form is kept in an artifact store.  A kernel that calls `__nv_expf` gets only the text of that
function and of its callees: about 8 KB and 0.3 ms.  For processes without a store, `tileiras-cache prepare` puts
the split form beside the package's data (`BitcodeLibrary.prepare`).

A library's functions may ask `__nvvm_reflect` for their variants (LLVM NVPTX usage, "NVVMReflect").  LLVM answers
`__CUDA_FTZ` (from the module flag `nvvm-reflect-ftz`) and `__CUDA_ARCH`; every other key folds to 0.
`__CUDA_PREC_SQRT` must be 1 for an IEEE square root, so that one is answered here, by the module that is linked with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

import tileiras
from tileiras import processes
from tileiras.codegen.llvm_identity import llvm_identity
from tileiras.diagnostics import CompileError, Locatable
from tileiras.support.files import read_if_there, write_atomically
from tileiras.targets.nvptx import MODULE_HEADER, REFLECTION_METADATA

SPLITTER_VERSION = 2
"""Part of the store's key; raise it when the split form changes."""

_DIGEST_SIZE = 16
"""Bytes of xxh3_128."""

REFLECT_VALUES = {"__CUDA_PREC_SQRT": 1, "__CUDA_PREC_DIV": 1}
"""Reflection keys that LLVM does not answer: correctly rounded square root and division, CUDA's defaults."""


class ArtifactStore(Protocol):
    """Interface of a store: bytes by name.  A miss is None, never an error."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...


class MemoryStore:
    """A store that lasts as long as the process, for callers that have no artifact store."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._entries.get(key)

    def put(self, key: str, value: bytes) -> None:
        self._entries[key] = value


_process_store = MemoryStore()

prepared_folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "share", "bitcode")
"""Where an installation has libraries taken apart."""

Entries = dict[str, tuple[str, tuple[str, ...]]]
"""A library taken apart: see `split`."""

_in_memory: dict[str, Entries] = {}
"""Libraries that this process holds taken apart, by their keys in a store; see `BitcodeLibrary.keep_in_memory`."""

# A top-level entity starts a line; a function ends with the first "}" in column 0. These are compiled when they are
# used: few processes split a library.
_REFERENCE = r'[@%](?:"[^"]*"|[-a-zA-Z$._][-a-zA-Z$._0-9]*)|#\d+|!\d+'
_NAME = r'(@(?:"[^"]*"|[-a-zA-Z$._][-a-zA-Z$._0-9]*))\s*[=(]'
_REFLECT_CALL = r"= call i32 @__nvvm_reflect\(ptr (?:noundef )?(@[-a-zA-Z$._0-9]+)\)[^\n]*"
_STRING = r'c"([^"]*?)\\00"'
_UNUSED_METADATA = r", !srcloc !\d+"
_REFLECTION = re.compile(r'^!\d+ = !\{!"(__CUDA_\w+)", i32 (\d+)\}$', re.MULTILINE)
_ANSWER = r"<(__CUDA_\w+)>"


def reflection(ir: str) -> dict[str, int]:
    """The values of the keys of `REFLECT_VALUES` for a module."""
    result = {key: int(value) for key, value in _REFLECTION.findall(ir)} if f"!{REFLECTION_METADATA} = " in ir else {}
    return {**REFLECT_VALUES, **result}


class BitcodeLibrary:
    """One bitcode file or buffer, opened at the first request for a function."""

    __slots__ = ("_data", "_digest", "_entries", "_store", "name", "path")

    def __init__(
        self, name: str, path: str | None, data: bytes | None = None, store: ArtifactStore | None = None
    ) -> None:
        """`name` appears in messages; `path` is read at the first use, unless `data` is given."""
        self.name = name
        self.path = path
        self._data = data
        self._digest: str | None = None
        self._store = store if store is not None else _process_store
        self._entries: Entries | None = None

    @property
    def digest(self) -> str:
        """xxh3_128 of the bitcode, in hexadecimal."""
        if self._digest is None:
            import xxhash

            self._digest = xxhash.xxh3_128_hexdigest(self._read())
        return self._digest

    def _read(self) -> bytes:
        if self._data is None:
            assert self.path is not None
            with open(self.path, "rb") as file:
                self._data = file.read()
        return self._data

    def _load(self) -> Entries:
        if self._entries is None:
            self._entries = _in_memory.get(self._key)
        if self._entries is None:
            entries_data = self._store.get(self._key) or self._prepare()
            if entries_data is None:
                with tileiras.support.progress.Progress(
                    f"taking {os.path.basename(self.path or 'a library')} apart, once"
                ) as progress:
                    progress.step()
                    text, _ = processes.helper.call("disassemble", bitcode=self._read())
                    entries = split(text)
                self._store.put(self._key, pack(entries))
            else:
                entries = unpack(entries_data)
            self._entries = entries
            self._data = None
        return self._entries

    def _prepared_path(self) -> str:
        import xxhash

        return os.path.join(prepared_folder, f"{self.name}-{xxhash.xxh3_64_hexdigest(self._key.encode())}")

    def _prepare(self) -> bytes | None:
        """The split form beside the package's data; None if missing or damaged."""
        import xxhash

        data = read_if_there(self._prepared_path()) or b""
        digest, content = data[:_DIGEST_SIZE], data[_DIGEST_SIZE:]
        return content if content and xxhash.xxh3_128_digest(content) == digest else None

    def prepare(self) -> str:
        """Split the library for all users of this installation, remove the files of its other releases, and return
        the file's path.  Raises OSError if the file cannot be written, RuntimeError for invalid bitcode."""
        import xxhash

        data = pack(self._load())
        path = self._prepared_path()
        write_atomically(path, xxhash.xxh3_128_digest(data) + data)
        os.chmod(path, 0o644)
        for other in os.listdir(prepared_folder):
            if other.startswith(f"{self.name}-") and other != os.path.basename(path):
                os.unlink(os.path.join(prepared_folder, other))
        return path

    def keep_in_memory(self) -> None:
        """Take the library apart for all compilations of this process and of those that are forked from it."""
        _in_memory[self._key] = self._load()

    def defines(self, function: str) -> bool:
        """Whether the library has this function; raises RuntimeError when it is no bitcode."""
        return self._load().get("@" + function, ("", ()))[0].startswith("define")

    def definition(self, function: str) -> str:
        """The text of a function that the library defines."""
        return self._load()["@" + function][0]

    def closure(
        self,
        functions: Iterable[str],
        location: Locatable | None = None,
        reflection: Mapping[str, int] = REFLECT_VALUES,
    ) -> str:
        """LLVM IR text of the functions named and everything they reach, all but the named ones internal, and of the
        library's variables that the host initializes.

        The named functions keep external linkage so that a module calling them links; the caller internalises them
        after linking.  Raises CompileError for a name that the library does not define.

        The text is kept in the store, too: taking the split form of a whole library from there costs 10 ms.
        """
        roots = sorted(set(functions))
        answers = ",".join(f"{k}={v}" for k, v in sorted(reflection.items()))
        key = f"{self._key}/closure-with-variables/{','.join(roots)}/{answers}"
        if self._key in _in_memory:
            return self._closure(roots, location, reflection)
        text = self._store.get(key)
        if text is None:
            text = self._closure(roots, location, reflection).encode()
            self._store.put(key, text)
        return text.decode()

    @property
    def _key(self) -> str:
        return f"bitcode/{self.digest}/{llvm_identity()}/split-{SPLITTER_VERSION}"

    def _closure(self, roots: list[str], location: Locatable | None, reflection: Mapping[str, int]) -> str:
        entries = self._load()
        for name in roots:
            if not self.defines(name):
                raise CompileError.at(location, f"{self.name} defines no function '{name}'")
        reached: set[str] = set()
        stack = ["@" + name for name in roots]
        stack += [name for name, (text, _) in entries.items() if _is_initialized_by_host(text)]
        while stack:
            name = stack.pop()
            if name in reached:
                continue
            reached.add(name)
            stack += entries[name][1]
        lines = [MODULE_HEADER]
        root_symbols = {"@" + name for name in roots}
        for name, (text, _) in entries.items():
            if name not in reached:
                continue
            if text.startswith("define ") and name not in root_symbols and not text.startswith("define internal "):
                text = "define internal " + text[len("define ") :]
            lines.append(re.sub(_ANSWER, lambda match: str(reflection[match.group(1)]), text))
        return "\n".join(lines) + "\n"


def split(text: str) -> Entries:
    """Top-level entities of LLVM IR text: name -> (text, names of the entities it refers to), in file order.

    Names carry their sigil: `@f` for functions and globals, `%struct.s` for types, `#3` for attribute groups, `!7`
    for metadata.  Named metadata, the data layout and the triple are left out.  Where a function asks for a key of
    `REFLECT_VALUES`, its answer stands as `<key>`.
    """
    pieces: dict[str, str] = {}
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if line.startswith("define"):
            start = index - 1
            while lines[index] != "}":
                index += 1
            index += 1
            body = re.sub(_UNUSED_METADATA, "", "\n".join(lines[start:index]))
            pieces[_symbol(line)] = body
        elif line.startswith("declare"):
            pieces[_symbol(line)] = line
        elif line.startswith(("@", "%")):
            pieces[line.partition(" = ")[0]] = line
        elif line.startswith("attributes #"):
            pieces[line.split()[1]] = line
        elif re.match(r"!\d+ = ", line):
            pieces[line.partition(" = ")[0]] = line
    strings = {name: m.group(1) for name, body in pieces.items() if name[0] == "@" and (m := re.search(_STRING, body))}

    def answer(match: re.Match[str]) -> str:
        key = strings.get(match.group(1))
        return f"= add i32 0, <{key}>" if key in REFLECT_VALUES else match.group(0)

    entries: Entries = {}
    for name, body in pieces.items():
        if name[0] == "@" and "@__nvvm_reflect(" in body and body.startswith("define"):
            body = re.sub(_REFLECT_CALL, answer, body)
        references = dict.fromkeys(re.findall(_REFERENCE, body))
        entries[name] = (body, tuple(r for r in references if r != name and r in pieces))
    return entries


def _is_initialized_by_host(text: str) -> bool:
    """Whether an entity is a variable that the host finds by its name (LLVM language reference,
    "externally_initialized")."""
    head = text.partition("\n")[0]
    return head.startswith("@") and " externally_initialized " in head and " internal " not in head


def _symbol(line: str) -> str:
    match = re.search(_NAME, line)
    assert match is not None, line
    return match.group(1)


def pack(entries: Entries) -> bytes:
    """The stored form: one index line per entity (name, length in bytes, references), an empty line, the texts."""
    index: list[str] = []
    texts: list[bytes] = []
    for name, (text, references) in entries.items():
        data = text.encode()
        texts.append(data)
        index.append("\t".join((name, str(len(data)), *references)))
    return "\n".join(index).encode() + b"\n\n" + b"".join(texts)


def unpack(data: bytes) -> Entries:
    """Inverse of `pack`."""
    index, _, texts = data.partition(b"\n\n")
    entries: Entries = {}
    offset = 0
    for line in index.decode().split("\n"):
        name, length, *references = line.split("\t")
        end = offset + int(length)
        entries[name] = (texts[offset:end].decode(), tuple(references))
        offset = end
    return entries
