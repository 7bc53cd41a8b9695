"""A store of bytes in a folder, for programs that compile one file and are gone: what libdevice is split into is worth
keeping, an artifact database is not worth opening.

One file per key, named by the key's digest and written whole; its first bytes are the digest of the rest.  Whatever is
wrong with a file or with the folder counts as absent.
"""

from __future__ import annotations

import os

_DIGEST_BYTES = 16


class FolderStore:
    """`get` and `put` over the files of a folder, which is made when something is first put there."""

    __slots__ = ("folder",)

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def _path(self, key: str) -> str:
        import xxhash

        return os.path.join(self.folder, xxhash.xxh3_128_hexdigest(key.encode()))

    def get(self, key: str) -> bytes | None:
        import xxhash

        try:
            with open(self._path(key), "rb") as file:
                data = file.read()
        except OSError:
            return None
        payload = data[_DIGEST_BYTES:]
        return payload if xxhash.xxh3_128_digest(payload) == data[:_DIGEST_BYTES] else None

    def put(self, key: str, value: bytes) -> None:
        import tempfile

        import xxhash

        try:
            os.makedirs(self.folder, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self.folder)
            with open(descriptor, "wb") as file:
                file.write(xxhash.xxh3_128_digest(value) + value)
            os.replace(name, self._path(key))
        except OSError:
            # A folder that cannot be written costs time, not the compilation.
            return


def user_store() -> FolderStore:
    """The store of the program run by hand: `TILEIRAS_CACHE_DIR`, else the user's cache directory."""
    base = os.environ.get("TILEIRAS_CACHE_DIR")
    if not base:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(cache, "tileiras")
    return FolderStore(os.path.join(base, "files"))
