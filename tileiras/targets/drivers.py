"""The CUDA release whose driver is the first to compile each version of PTX (PTX ISA, "PTX Release History").

A driver reports the CUDA release that it belongs to (`cuDriverGetVersion`), and compiles PTX of all earlier versions.
The branch of a driver is its major version, None where it was not looked up.
"""

from __future__ import annotations

from tileiras.support.named_tuple import NamedTuple


class DriverRow(NamedTuple):
    """A version of PTX, the CUDA release with it, and the driver branch that the release history names."""

    ptx: tuple[int, int]
    cuda: tuple[int, int]
    branch: int | None


DRIVERS = (
    DriverRow((6, 3), (10, 0), 400), DriverRow((6, 4), (10, 1), 418), DriverRow((6, 5), (10, 2), 440),
    DriverRow((7, 0), (11, 0), 445), DriverRow((7, 1), (11, 1), 455), DriverRow((7, 2), (11, 2), 460),
    DriverRow((7, 3), (11, 3), 465), DriverRow((7, 4), (11, 4), 470), DriverRow((7, 5), (11, 5), 495),
    DriverRow((7, 6), (11, 6), 510), DriverRow((7, 7), (11, 7), 515), DriverRow((7, 8), (11, 8), 520),
    DriverRow((8, 0), (12, 0), 525), DriverRow((8, 1), (12, 1), 530), DriverRow((8, 2), (12, 2), 535),
    DriverRow((8, 3), (12, 3), 545), DriverRow((8, 4), (12, 4), 550), DriverRow((8, 5), (12, 5), 555),
    DriverRow((8, 6), (12, 7), 565), DriverRow((8, 7), (12, 8), 570), DriverRow((8, 8), (12, 9), 575),
    DriverRow((9, 0), (13, 0), 580), DriverRow((9, 1), (13, 1), None), DriverRow((9, 2), (13, 2), None),
    DriverRow((9, 3), (13, 3), None), DriverRow((9, 4), (13, 4), None), DriverRow((9, 5), (13, 5), None),
)  # fmt: skip


def cuda_for(ptx: tuple[int, int]) -> tuple[int, int]:
    """The CUDA release of the oldest driver that compiles a version of PTX; the newest known release otherwise."""
    return next((row.cuda for row in DRIVERS if row.ptx >= ptx), DRIVERS[-1].cuda)
