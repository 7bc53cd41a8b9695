"""Requirements of instructions on a GPU: their notation in the instruction tables, and the `.target` form they need.

A requirement is the number of the lowest chip, `80`, or the architecture-specific and family-specific targets that have
the instruction, `=90a` or `=100f,120a` (PTX ISA, "PTX Module Directives: .target"): `100a` is that chip alone, `100f`
that chip and later ones of its family.  A GPU is asked for by its number; the letter of its `.target` follows from the
instructions that the kernel came to use, so that code without such instructions stays forward compatible.
"""

from __future__ import annotations

import functools

FAMILIES: tuple[tuple[int, ...], ...] = ((100, 103, 107), (110,), (120, 121))
"""Chips whose family-specific features later members keep (ptxas assembles `sm_100f` for each of the first three)."""

FORMS = ("", "f", "a")
"""Letters from the most portable form to the least; each has all instructions of those before it."""


@functools.cache
def split(chip: str) -> tuple[int, str]:
    """`sm_90a` -> (90, "a")."""
    code = chip.removeprefix("sm_")
    letter = code[-1] if code[-1] in "af" else ""
    return int(code.removesuffix(letter)), letter


@functools.cache
def form(requirement: str, chip: str) -> str | None:
    """The least letter that the chip's `.target` needs to meet a requirement, None when the chip does not meet it.

    A chip given with a letter is that form, and has what more portable forms have.
    """
    number, result = split(chip)
    if not requirement.startswith("="):
        return "" if number >= int(requirement) else None
    letters = [letter for code in requirement[1:].split(",") if (letter := _letter(code, number)) is not None]
    if result:
        letters = [letter for letter in letters if FORMS.index(letter) <= FORMS.index(result)]
    return min(letters, key=FORMS.index, default=None)


def _letter(code: str, number: int) -> str | None:
    """The letter of the chip's `.target` that meets `100a` or `100f`."""
    first, letter = split(code)
    if letter == "f":
        family = next((family for family in FAMILIES if first in family), ())
        return letter if number in family and number >= first else None
    return letter if number == first else None


def admits(requirement: str, chip: str) -> bool:
    """Whether a GPU such as `sm_90`, in whichever form it needs, meets a requirement."""
    return form(requirement, chip) is not None


def spell(requirement: str) -> str:
    """A requirement in words: `90` -> "sm_90 or newer", `=100a,103a` -> "one of sm_100a, sm_103a"."""
    codes = ["sm_" + code for code in requirement.lstrip("=").split(",")]
    if not requirement.startswith("="):
        return f"{codes[0]} or newer"
    return ("one of " if len(codes) > 1 else "") + ", ".join(codes)
