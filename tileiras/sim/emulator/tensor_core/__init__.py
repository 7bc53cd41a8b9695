"""Dots of warps, warpgroups and tensor memory."""
