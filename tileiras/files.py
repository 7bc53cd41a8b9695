"""Files written whole or not at all."""

from __future__ import annotations

import os

RACY_NS = 2_000_000_000
"""Two seconds, the coarsest time stamps in use (FAT's): a file that is younger may change and keep its time."""


def write_atomically(path: str, data: bytes) -> None:
    """Writes a file so that no reader and no crash ever sees a part of it; makes the folder."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    import threading

    temporary = os.path.join(folder, f".{os.path.basename(path)[:60]}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def write_product(path: str, data: bytes) -> None:
    """Writes what a command makes: a file whole or not at all, in a folder that exists; devices and pipes directly."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
    elif not os.path.isdir(os.path.dirname(path) or "."):
        raise FileNotFoundError(2, "No such file or directory")
    else:
        write_atomically(path, data)
