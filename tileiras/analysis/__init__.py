"""Analyses: facts about values, computed once for a function and queried by lowerings and passes."""
