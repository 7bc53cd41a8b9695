"""Analyses: facts about values, computed once for a function and asked by lowerings and passes."""
