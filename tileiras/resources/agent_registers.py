"""How the registers of a CTA are shared out among its agents.

Threads of a kernel start with equal shares.  Where the tiles of the agent that computes take more than one, the other
agents give some of theirs up with `setmaxnreg`, in whole warpgroups.
"""

from __future__ import annotations

from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.sm import SETMAXNREG, WARP_SIZE, WARPGROUP, entry_registers, register_pool

TILED_COPIES, POINTER_COPIES = 40, 56
"""Registers of a thread that starts copies.  CUTLASS and FlashAttention-3 leave 40 to producers
that copy by `cp.async`; each address from a tile of pointers takes two more.  With several of them, the mere
estimate of a computing thread does not reduce the number: for 128x64 gathered f32, a copying warpgroup spills 600 bytes
with 56 registers and 80 with 168 (ptxas 13.5)."""

BESIDE_TILES = 56
"""Registers of a thread that computes beside its tiles, where others can spare them: with 128 accumulators, a dot
in a loop over tiles takes 186 in all, and spills 72 bytes at 168 (ptxas 13.5)."""

MOST = 240
"""Maximum of a computing thread, with `setmaxnreg`: 240 beside 24 is the most that FlashAttention-3 and TileLang
give."""

FEWER_REGISTERS, MORE_REGISTERS = 7 / 8, 9 / 8
"""Factors of the expected registers of a kernel that ptxas may take instead: for most kernels the estimate is within
15 % (docs/resources.md)."""

BESIDE_ACCUMULATORS = 26
"""Registers without which ptxas 13.5 does not compile a `wgmma`, beside those of the one instruction's accumulators:
its message C7602 asks for 90 where these are 64.  They have to be there when the kernel starts."""


def loading_warps(compute: int, in_boxes: bool) -> int:
    """Warps of an agent that copies tiles for one of `compute` warps: one where a thread copies them `in_boxes`, else a
    warpgroup."""
    return 1 if in_boxes else min(compute, WARPGROUP)


def _whole(warps: int) -> int:
    """Warps of as many whole warpgroups as hold these."""
    return -(-warps // WARPGROUP) * WARPGROUP


class RegisterShares(NamedTuple):
    """Warps of a CTA; registers of a thread: that all start with, and that each agent sets, 0 for none; `compute` is of
    the agent that computes, `beside` of one that computes for it."""

    warps: int
    entry: int
    compute: int = 0
    service: int = 0
    beside: int = 0

    @property
    def most(self) -> int:
        """Maximum registers of a thread that computes."""
        return max(self.entry, self.compute)


def register_shares(
    tiles: int, estimate: int, compute: int, others: int, service: int, ctas: int = 1,
    beside: tuple[int, int] = (0, 0),
) -> RegisterShares:  # fmt: skip
    """The shares where an agent of `compute` warps has tiles of `tiles` registers a thread and is expected to take
    `estimate` in all, and `others` further warps need `service`: no `setmaxnreg` if equal shares suffice, or if the
    registers that others can give up do not help.  Only whole warpgroups set registers, so some warps may be idle.

    `beside`: warps of an agent that computes for the first one, whole warpgroups, and the registers that it needs.
    """
    helpers, own = beside
    # ptxas 13.5 shares the registers of an SM out to whole warpgroups: a thread of 288 has no more than one of 384.
    entry = entry_registers(WARP_SIZE * _whole(ctas * (compute + helpers + others)))
    equal = RegisterShares(compute + helpers + others, entry)
    registers = tiles + BESIDE_TILES
    if service < POINTER_COPIES:
        registers = max(registers, round(estimate * MORE_REGISTERS))
    if compute % WARPGROUP or registers <= entry:
        return equal
    padded = _whole(others)
    threads = WARP_SIZE * (compute + helpers + padded)
    least = entry_registers(threads, ctas)
    pool = register_pool(threads, ctas) - WARP_SIZE * (padded * service + helpers * own)
    share = min(MOST, pool // (WARP_SIZE * compute) // SETMAXNREG.step * SETMAXNREG.step)
    if service >= least or share <= entry:
        return equal
    return RegisterShares(compute + helpers + padded, least, share, service, own)
