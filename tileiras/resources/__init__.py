"""Resources that a plan needs and a target provides: registers of a thread, shared memory."""
