"""Rewrites loops as their schedules say: rings of buffers with asynchronous copies, prefetch in registers."""
