"""Schedules of loops: which loads run ahead of their uses, through how many stages, and which agents issue them."""
