"""Which warps, atoms and layouts: at dots and accesses first, and from there everywhere."""
