"""The versions of the format, and the numbers that all of them share."""

from __future__ import annotations

from tileiras.support.named_tuple import NamedTuple

MAGIC = b"\x7fTileIR\x00"
HEADER_SIZE = 12
"""Magic, major and minor version (a byte each), version tag (two bytes, little-endian)."""


class Version(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """"13.2" -> Version(13, 2); ValueError for anything else."""
        major, dot, minor = text.partition(".")
        if not dot or not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
            raise ValueError(f"'{text}' is not a version of the form major.minor")
        return cls(int(major), int(minor))


SUPPORTED = (Version(13, 1), Version(13, 2), Version(13, 3), Version(13, 4), Version(13, 5))
"""The versions that are read and written."""

OLDEST = SUPPORTED[0]
CURRENT = SUPPORTED[-1]

TESTING = (Version(250, 0), Version(250, 1))
"""Versions that no release has; known only where the operations that test the format are loaded."""


def supported() -> tuple[Version, ...]:
    """The versions that are read and written, oldest first."""
    from tileiras.ir.registry import OPERATIONS

    return (*SUPPORTED, *TESTING) if TEST_FUNCTION in OPERATIONS else SUPPORTED


TEST_FUNCTION = "cuda_tile.testing$func"

ENTRY_ATTRIBUTES = Version(13, 5)
"""From here on every entry has hints, and every function a list of argument attributes, announced by no flag; a
subprogram has flags."""

PREVIEWS = CURRENT
"""The version whose files may have preview features."""

PREVIEW_FLAG = 1
"""The bit of the version tag that marks files with preview features."""

PREVIEW_OPCODES = 0x4000
"""From here on operations are previews."""


def has_previews(data: bytes) -> bool:
    """Whether the header of bytecode declares preview features."""
    return len(data) >= HEADER_SIZE and bool(data[10] & PREVIEW_FLAG)

UNIFIED_FLAGS = Version(13, 3)
"""From here on a type's optional parameters are announced by one leading bit field; before, by a byte each."""


def is_bytecode(data: bytes) -> bool:
    """Whether the bytes open like Tile IR bytecode of any version."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def looks_like_mlir(data: bytes) -> bool:
    """Whether the bytes are MLIR's own bytecode instead: its magic number, or a run of the words that it opens with,
    for which the vendor's driver looks as well."""
    return data.startswith(b"ML\xefR") or b"e IR byt" in data
