"""The loader of a package of kernels compiled ahead of time (`tileiras package`), as it lies in the package.

`kernels.json` states for each kernel the file of its image and its parameters; the launch descriptions of an image lie
beside it.  An image is read at the first launch of one of its kernels.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import ArgumentError, BoundKernel, bind, launch


class Package:
    """The kernels of a folder with `kernels.json` and images."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._images: dict[str, tuple[bytes, Mapping[str, Any]]] = {}

    @functools.cached_property
    def document(self) -> Mapping[str, Any]:
        """The content of `kernels.json`."""
        return json.loads(self._read("kernels.json"))

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels."""
        return list(self.document["kernels"])

    def launch(self, entry: str, grid: int | Sequence[int], args: Sequence[Any], stream: object = None) -> None:
        """Launch a kernel on the GPU; arguments are those of `tileiras.runtime.launch`.

        Raises DriverError with the driver's message, and ArgumentError for a kernel or arguments that do not fit.
        """
        image, metadata = self._image(entry)
        launch(image, entry, grid, args, stream, metadata=metadata)

    def bind(self, entry: str) -> BoundKernel:
        """Load a kernel once for many launches: a function of grid, arguments and stream."""
        image, metadata = self._image(entry)
        return bind(image, entry, metadata=metadata)

    def describe(self) -> str:
        """A line for each kernel, with the targets of its image and the drivers that compile its PTX."""
        lines = []
        for name, kernel in self.document["kernels"].items():
            parameters = ", ".join(kernel["parameters"])
            lines.append(f"{name}({parameters}): {', '.join(self.document['images'][kernel['image']])}")
        return "\n".join(lines)

    def _image(self, entry: str) -> tuple[bytes, Mapping[str, Any]]:
        kernel = self.document["kernels"].get(entry)
        if kernel is None:
            raise ArgumentError(f"no kernel '{entry}' in the package; it has: {', '.join(self.kernels)}")
        name = kernel["image"]
        if name not in self._images:
            self._images[name] = self._read(name), json.loads(self._read(f"{name}.json"))
        return self._images[name]

    def _read(self, name: str) -> bytes:
        with open(os.path.join(self._folder, name), "rb") as file:
            return file.read()
