"""Instructions that compute values from registers."""
