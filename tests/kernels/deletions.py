"""The instructions that order threads, proxies and asynchronous operations in PTX, and the text without each of them.

In right code every deletion has to be detected: an instruction without effect should not be in the code.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PHASE = r"mbarrier\.(?:try|test)_wait[^;]*;"
KINDS = {
    # With the branch back to it; of one that goes on by a branch, that branch stays.
    "wait for a phase": rf"{_PHASE}\s*(?:not\.pred[^;]*;\s*)?@!?%p\d+ bra[^;]*;(?!\s*bra\.uni)",
    "last wait for a phase": rf"{_PHASE}\s*@%p\d+ (?P<on>bra[^;]*;)\s*bra\.uni[^;]*;",
    "mbarrier": r"mbarrier\.init[^;]*;",
    "arrival": r"mbarrier\.(?:arrive|expect_tx|complete_tx)[^;]*;|cp\.async\.mbarrier\.arrive[^;]*;",
    "barrier": r"\b(?:bar|barrier)(?:\.cta|\.warp|\.cluster)?\.(?:sync|arrive|wait|red)[\w.]*(?:\s[^;]*)?;",
    "copies": r"cp\.async\.(?:bulk\.)?(?:commit_group|wait_group|wait_all)[^;]*;",
    "fence": r"\b(?:fence|membar)\.[^;]*;",
    "dots of warpgroups": r"wgmma\.(?:fence|commit_group|wait_group)[^;]*;",
    "tensor memory": r"tcgen05\.(?:alloc|dealloc|commit|fence|wait)[^;]*;",
    "dependent launch": r"griddepcontrol\.wait[^;]*;",
}
"""Kind of synchronization -> regular expression."""

_GUARD = r"(?:@!?%p\d+\s+)?"
_OF_KIND = {kind: re.compile(f"{_GUARD}(?:{pattern})") for kind, pattern in KINDS.items()}
_SITE = re.compile("|".join(pattern.pattern for pattern in _OF_KIND.values()))


class Deletion(NamedTuple):
    kind: str
    deleted: str
    span: tuple[int, int]
    """Its start and end in the text."""
    text: str
    """The text without it."""


def deletions(ptx: str) -> list[Deletion]:
    """One deletion for each synchronizing instruction, in the order of the text."""
    result = []
    for site in _SITE.finditer(ptx):
        kind = next(kind for kind, pattern in _OF_KIND.items() if pattern.fullmatch(site[0]))
        rest = ptx[: site.start()] + (site["on"] or "") + ptx[site.end() :]
        result.append(Deletion(kind, " ".join(site[0].split()), site.span(), rest))
    return result
