"""PTX: its text, types and instructions, and the decoded program."""
