"""The dialects, one package each; loaded when one of their names is first looked up."""
