"""A launch: arguments, grid, warps, control flow, and records of them."""
