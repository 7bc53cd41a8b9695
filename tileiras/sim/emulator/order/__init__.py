"""Order of accesses: synchronization, proxies, and the detection of data races."""
