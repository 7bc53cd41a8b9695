"""Rewrites against a shortage of registers or shared memory: sinking, spilling, shared-memory operands, loops over
K."""
