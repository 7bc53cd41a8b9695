"""Processes of one user: how they are started, guarded and ended."""


def __getattr__(name: str) -> object:
    # Every command loads this package, and few use a file of it by its attribute.
    from tileiras.support.lazy import lazy_names

    return lazy_names(__name__, globals())(name)
