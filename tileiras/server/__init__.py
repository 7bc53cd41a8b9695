"""The compile service: a process of the user's that stays, and answers commands from forked children.

`protocol` is what both ends agree on, `client` what a command does before it loads anything of the compiler, `zygote`
the process that stays, `request` what a forked child does.  Everything works the same without it; see
`docs/service.md`.
"""
