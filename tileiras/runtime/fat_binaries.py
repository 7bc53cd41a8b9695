"""The image of a fat binary that a device runs, by NAME.fatbin.json: the driver chooses it, a launch has to know it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .driver import DriverError

MAGIC = bytes.fromhex("50ed55ba")
"""The first bytes of a fat binary (`stages/fatbin.py`)."""

DESCRIPTION = ".fatbin.json"
"""The artifact of each kernel with the launch descriptions of every image."""


def suitability(form: str, target: str, device: int) -> int:
    """How well an image suits a device of compute capability `device` (90 for 9.0); negative if it does not run there.

    The rule is that of `suitability` in `tileiras.hpp`.
    """
    number, letter = re.fullmatch(r"sm_(\d+)([af]?)", target).groups()  # type: ignore[union-attr]
    arch = int(number)
    if arch > device or (letter == "a" and arch != device):
        return -1
    if (form != "ptx" or letter == "f") and arch // 10 != device // 10:
        return -1
    return 8 * arch + 4 * (form != "ptx") + {"a": 2, "f": 1, "": 0}[letter]


def image_for(images: Sequence[Mapping[str, Any]], device: int) -> Mapping[str, Any]:
    """The description of the image that suits a device best; raises DriverError if none does."""
    best = max(images, key=lambda image: suitability(image["form"], image["target"], device))
    if suitability(best["form"], best["target"], device) < 0:
        names = ", ".join(f"{image['target']}{' PTX' if image['form'] == 'ptx' else ''}" for image in images)
        raise DriverError(f"the fat binary has no image for a device of sm_{device}, only {names}")
    return best
