"""Where NVIDIA's redistributable tools and libraries are found: ptxas, nvdisasm, libdevice.

Nothing of the toolkit is shipped with this package.  A file is looked for, in this order,

1. where the caller says (an option),
2. in the wheels of this environment (`nvidia-cuda-nvcc`, `nvidia-nvvm`), which unpack below `nvidia/`,
3. under the toolkit root named by `CUDA_ROOT`, `CUDA_HOME` or `CUDA_PATH` (the first one that is set),
4. for programs, on `PATH`.

The wheels come before the environment variables because they belong to the environment that runs this compiler, while
`CUDA_HOME` is often set machine-wide to a toolkit that is older than the PTX we write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from tileiras.support import extras
from tileiras.support.files import store_directory, write_atomically

ROOT_VARIABLES = ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH")
"""Read in this order; the first one that is set names the toolkit root, as for the vendor's driver."""


def toolkit_root() -> str | None:
    """The toolkit root that the environment names, or None."""
    for variable in ROOT_VARIABLES:
        value = os.environ.get(variable)
        if value:
            return value
    return None


def to_install(package: str, name: str, program: bool = False) -> str:
    """Advice for a missing file or program of the toolkit; `package` is the wheel that contains it."""
    variables = f"{', '.join(ROOT_VARIABLES[:-1])} or {ROOT_VARIABLES[-1]}"
    on_path = ", or put it on PATH" if program else ""
    return f"{extras.install(package)}, or set {variables} to a CUDA toolkit that has {name}{on_path}"


def wheel_roots() -> list[str]:
    """Folders of the installed NVIDIA wheels that have a toolkit's layout, newest toolkit first.

    CUDA 13 wheels share one `nvidia/cu13` folder; CUDA 12 wheels have one folder each (`nvidia/cuda_nvcc`).
    """
    roots: list[str] = []
    for entry in sys.path:
        base = os.path.join(entry or os.curdir, "nvidia")
        try:
            names = os.listdir(base)
        except OSError:
            continue
        shared = sorted((n for n in names if n.startswith("cu") and n[2:].isdigit()), key=lambda n: -int(n[2:]))
        single = sorted(n for n in names if n in ("cuda_nvcc", "cuda_nvdisasm", "nvvm"))
        roots += [os.path.join(base, name) for name in shared + single]
    return roots


def find_program(name: str, override: str | None = None) -> str | None:
    """The path of a toolkit program (`ptxas`), or None.  A given `override` is taken or nothing is."""
    if override:
        return override if os.access(override, os.X_OK) and not os.path.isdir(override) else None
    return next(find_programs(name), None)


def find_programs(name: str) -> Iterator[str]:
    """All programs of a name, in the order in which they are looked for."""
    executable = name + ".exe" if os.name == "nt" else name
    roots = wheel_roots()
    root = toolkit_root()
    if root is not None:
        roots.append(root)
    folders = [os.path.join(r, "bin") for r in roots] + os.environ.get("PATH", "").split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, executable)
        if folder and os.access(path, os.X_OK) and not os.path.isdir(path):
            yield path


def find_library(relative: str, override: str | None = None) -> str | None:
    """The path of a toolkit file given by its place below the root (`nvvm/libdevice/libdevice.10.bc`), or None.

    `override` is the file itself or a toolkit root that holds it.
    """
    if override:
        nested = os.path.join(override, relative)
        if os.path.isfile(override):
            return override
        return nested if os.path.isfile(nested) else None
    roots = wheel_roots()
    root = toolkit_root()
    if root is not None:
        roots.append(root)
    for root in roots:
        path = os.path.join(root, relative)
        if os.path.isfile(path):
            return path
    return None


MEMO = "tools.json"


_STATE_FIELDS = 4


def state_of(path: str) -> str | None:
    """A file's path and the metadata that change when it is replaced or written; None for a missing file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{os.path.realpath(path)}:{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


silent: dict[str | None, float] = {}
"""`state_of` a program -> time limit, in seconds, within which it did not report its version: it is not run again
within that limit."""


def remembered(path: str, ask: Callable[[str], str]) -> str:
    """The version that a program or a library reports, requested once for each state of its file: starting a program
    takes as long as a kernel.

    Kept in `TILEIRAS_CACHE_DIR` or the user's cache directory; if the memo cannot be read, the program is asked.
    """
    import json

    key = state_of(path)
    if key is None:
        return ask(path)
    memo = _memo_path()
    memory: dict[str, str] = {}
    if memo is not None:
        try:
            with open(memo, encoding="utf-8") as file:
                memory = {str(name): str(value) for name, value in json.load(file).items()}
        except (OSError, ValueError, AttributeError):
            memory = {}
    if key not in memory:
        memory = {name: value for name, value in memory.items() if os.path.exists(name.rsplit(":", _STATE_FIELDS)[0])}
        memory[key] = ask(path)
        # If the file was replaced meanwhile, the answer may belong to the new one: do not keep it.
        if memo is not None and state_of(path) == key:
            try:
                write_atomically(memo, json.dumps(memory, indent=1, sort_keys=True).encode())
            except OSError:
                pass  # asked again by the next process
    return memory[key]


def _memo_path() -> str | None:
    folder = store_directory()
    return None if folder is None else os.path.join(folder, MEMO)
