"""Cubins of several targets, PTX for newer GPUs and bytecode -> one file for all of them, a fat binary.

In: the bytes of the images.  Out: those of NAME.fatbin, which the driver loads as it does a cubin, and of
NAME.fatbin.json, the launch descriptions of every image.  Nothing is compressed.

The container has no public specification: the layout is that of the files that `fatbinary` and nvFatbin of CUDA 13.5
write, whose bytes the tests compare with these.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from typing import Any

import tileiras
from tileiras.diagnostics import CompileError
from tileiras.support.named_tuple import NamedTuple

MAGIC, VERSION, ENTRY_VERSION = 0xBA55ED50, 1, 0x0101
_FILE = struct.Struct("<IHHQ")
"""Magic, version, size of this header, size of the entries."""
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
"""Kind, version, sizes of the entry's header and payload, compressed size, offset of the options, minor and major
version of the code, GPU, offset and size of a name, flags, a reserved word, uncompressed size."""
_OPTIONS = struct.Struct("<II")
"""Offset of the options' text, which ends in a zero, and size of the bytes behind it; here the text is empty."""

PTX, CUBIN, BYTECODE = "ptx", "cubin", "bytecode"
_KINDS = {PTX: 0x01, CUBIN: 0x02, BYTECODE: 0x80}

IS_64_BIT, HAS_DEBUG, IS_LINUX = 0x1, 0x2, 0x10
_LETTERS = {"": 0, "a": 0x100000, "f": 0x200000}
HAS_MERCURY = 0x1000000
"""The flag of cubins with code that can be finalized for another chip (`.nv.capmerc`); the bytes behind their options
are the section `.nv.compat`."""

BYTECODE_ARCH = 80
"""The GPU of an entry with bytecode, which is for every GPU: nvFatbinAddTileIR takes none and writes this one."""

DESCRIPTION = ".fatbin.json"


class Image(NamedTuple):
    """One image: its form, `sm_90a` (empty for bytecode) and its bytes."""

    form: str
    target: str
    data: bytes


def build(images: Sequence[Image], debug: bool = False) -> bytes:
    """The fat binary of images, in their order; `debug` as for `--device-debug`.

    Raises CompileError for an image that is not of its form.
    """
    entries = b"".join(_entry(image, HAS_DEBUG if debug else 0) for image in images)
    return _FILE.pack(MAGIC, VERSION, _FILE.size, len(entries)) + entries


def is_fat_binary(data: bytes) -> bool:
    return data.startswith(struct.pack("<I", MAGIC))


def portable(target: str) -> bool:
    """Whether newer GPUs run PTX of a target: with a letter it is for one chip or family (PTX ISA, ".target")."""
    return not target.endswith(("a", "f"))


def newest(targets: Sequence[str]) -> str | None:
    """The target whose PTX serves GPUs newer than all of them; None if the PTX of each is for its own chip."""
    return max(filter(portable, targets), key=_number, default=None)


class Compiled(NamedTuple):
    """A source compiled for one target: cubin, PTX, and NAME.json of each kernel."""

    cubin: bytes
    ptx: bytes
    documents: Sequence[bytes]

    @property
    def target(self) -> str:
        return str(json.loads(self.documents[0])["target"])


def pack(compiled: Sequence[Compiled], bytecode: bytes | None, debug: bool = False) -> tuple[bytes, bytes]:
    """NAME.fatbin and NAME.fatbin.json: the cubins in the order of the targets, PTX for newer GPUs if it is for any,
    bytecode if it is given."""
    by_target = {each.target: each for each in compiled}
    images = [Image(CUBIN, each.target, each.cubin) for each in compiled]
    described = [_describe(CUBIN, each) for each in compiled]
    last = newest(list(by_target))
    if last is not None:
        images.append(Image(PTX, last, by_target[last].ptx))
        described.append(_describe(PTX, by_target[last]))
    if bytecode is not None:
        images.append(Image(BYTECODE, "", bytecode))
    return build(images, debug), (json.dumps({"images": described}, indent=1) + "\n").encode()


def bytecode_of(module: bytes, name: str, version: str | None) -> bytes:
    """The bytecode of a module in text (NAME.cuda_tile.mlir)."""
    number = tileiras.bytecode.CURRENT if version is None else tileiras.bytecode.Version.parse(version)
    return tileiras.bytecode.write_module(tileiras.stages.read.read(module, name), number)


def _describe(form: str, compiled: Compiled) -> dict[str, Any]:
    """NAME.json of all kernels in one, with the form of the image."""
    jsons = [json.loads(document) for document in compiled.documents]
    return {"form": form, **jsons[0], "kernels": [kernel for document in jsons for kernel in document["kernels"]]}


def _number(target: str) -> int:
    return int(re.sub(r"\D", "", target))


def _entry(image: Image, flags: int) -> bytes:
    major, minor = _code_version(image)
    data, compat, target = image.data, b"", image.target or f"sm_{BYTECODE_ARCH}"
    has_options = image.form != CUBIN
    flags |= IS_64_BIT | IS_LINUX | _LETTERS[target.lstrip("sm_0123456789")]
    if image.form == CUBIN:
        sections = _sections(data)
        if any(name.startswith(b".nv.capmerc") for name in sections):
            has_options, compat, flags = True, sections.get(b".nv.compat", b""), flags | HAS_MERCURY
    if image.form == PTX:
        data += b"\0"
    data += b"\0" * (-len(data) % 8)
    block = b""
    if has_options:
        block = _OPTIONS.pack(_ENTRY.size + _OPTIONS.size, len(compat)) + b"\0" + compat
        block += b"\0" * (-len(block) % 8)
    head = _ENTRY.pack(
        _KINDS[image.form], ENTRY_VERSION, _ENTRY.size + len(block), len(data), 0, _ENTRY.size if has_options else 0,
        minor, major, _number(target), 0, 0, flags, 0, 0,
    )  # fmt: skip
    return head + block + data


def _code_version(image: Image) -> tuple[int, int]:
    """Of PTX its `.version`; of a cubin 1 and the version of its ABI; of bytecode its version in one number."""
    data = image.data
    if image.form == CUBIN and data.startswith(b"\x7fELF\x02\x01"):
        return 1, data[8]
    if image.form == BYTECODE and data.startswith(b"\x7fTileIR\0"):
        return data[8] << 8 | data[9], 0
    version = re.search(rb"^\s*\.version\s+(\d+)\.(\d+)", data, re.MULTILINE) if image.form == PTX else None
    if version is None:
        raise CompileError.at(None, f"an image of a fat binary is no {image.form}")
    return int(version[1]), int(version[2])


def _sections(elf: bytes) -> dict[bytes, bytes]:
    """The contents of an ELF file's sections by name."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    count, of_names = struct.unpack_from("<HH", elf, 0x3C)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + 64 * number) for number in range(count)]
    names = headers[of_names][4] if headers else 0
    sections = {}
    for name, _, _, _, offset, size in headers:
        start = names + name
        sections[elf[start : elf.index(b"\0", start)]] = elf[offset : offset + size]
    return sections
