"""Optional packages: the extra that installs each, and the message for a missing one."""

from __future__ import annotations

EXTRAS = {
    "cuda": ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-nvdisasm"),
    "cutile": ("cuda-tile",),
    "dask": ("distributed",),
    "editor": ("pygls",),
    "nvjitlink": ("nvidia-nvjitlink",),
    "report": ("jinja2", "pygments"),
    "signing": ("cryptography",),
}
"""Extra of pyproject.toml -> packages: ptxas, libdevice and nvdisasm; the front end of cuTile Python; a Dask client;
the protocol of editors;
the assembler as a library; templates and highlighting of HTML reports; signatures of rows on a team's server."""


def install(package: str) -> str:
    """The advice for a missing package, to be appended to a message."""
    extra = next(extra for extra, packages in EXTRAS.items() if package in packages)
    return f"install the package '{package}' (the '{extra}' extra brings it)"
