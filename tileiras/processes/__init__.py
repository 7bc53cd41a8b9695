"""Processes of one user: their sockets and locks."""
