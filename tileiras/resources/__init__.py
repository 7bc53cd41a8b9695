"""What a plan takes and a target gives: registers of a thread, shared memory."""
