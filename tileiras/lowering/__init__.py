"""Lowerings between dialects, one package each, by operation family."""
