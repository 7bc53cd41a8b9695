"""The compile service: a per-user daemon that answers commands in forked children.

`protocol` defines the messages, `client` runs in a command before it loads the compiler, `zygote` is the daemon,
`request` runs in a forked child.  Results are the same without the service; see `docs/service.md`.
"""
