"""Asynchronous copies, and the barriers and tensor maps that they use."""
