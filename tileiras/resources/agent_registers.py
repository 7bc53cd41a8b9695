"""How the registers of a CTA are shared out among its agents.

Threads of a kernel start with equal shares.  Where the tiles of the agent that computes take more than one, the other
agents give some of theirs up with `setmaxnreg`, in whole warpgroups.
"""

from __future__ import annotations

from tileiras.named_tuple import NamedTuple
from tileiras.targets.sm import SETMAXNREG, WARP_SIZE, WARPGROUP, entry_registers, register_pool

TILED_COPIES, POINTER_COPIES = 40, 56
"""Registers of a thread that starts copies.  40 is what CUTLASS and FlashAttention-3 leave to producers
that copy by `cp.async`; each address that comes from a tile of pointers takes two more."""

BESIDE_TILES = 56
"""Registers of a thread that computes beside its tiles, where others can spare them: with 128 accumulators, a product
in a loop over tiles takes 186 in all, and spills 72 bytes at 168 (ptxas 13.5)."""

MOST = 240
"""Of a thread that computes, with `setmaxnreg`: 240 beside 24 is the most that FlashAttention-3 and TileLang give."""

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
    the agent that computes."""

    warps: int
    entry: int
    compute: int = 0
    service: int = 0

    @property
    def most(self) -> int:
        """What a thread that computes can have."""
        return max(self.entry, self.compute)


def register_shares(tiles: int, compute: int, others: int, service: int, ctas: int = 1) -> RegisterShares:
    """The shares where an agent of `compute` warps has tiles of `tiles` registers a thread, and `others` further warps
    need `service`: they set none where equal shares suffice, or where what can be given up does not help.  Only whole
    warpgroups set registers: there are then warps that have nothing to do.
    """
    # ptxas 13.5 shares the registers of an SM out to whole warpgroups: a thread of 288 has no more than one of 384.
    entry = entry_registers(WARP_SIZE * _whole(ctas * (compute + others)))
    equal = RegisterShares(compute + others, entry)
    if compute % WARPGROUP or tiles + BESIDE_TILES <= entry:
        return equal
    padded = _whole(others)
    threads = WARP_SIZE * (compute + padded)
    least = entry_registers(threads, ctas)
    left = register_pool(threads, ctas) - WARP_SIZE * padded * service
    share = min(MOST, left // (WARP_SIZE * compute) // SETMAXNREG.step * SETMAXNREG.step)
    if service >= least or share <= entry:
        return equal
    return RegisterShares(compute + padded, least, share, service)
