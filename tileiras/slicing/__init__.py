"""Cutting tiles and dots: over the CTAs of a cluster, into slices, into loops over K."""
