"""What a shortage of registers or shared memory asks for: sinking, spilling, shared-memory operands, loops over K."""
