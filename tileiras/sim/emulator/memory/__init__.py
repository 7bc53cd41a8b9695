"""Loads, stores, atomics and matrix accesses of threads."""
