"""What a schedule becomes: rings of buffers with asynchronous copies, prefetch in registers."""
