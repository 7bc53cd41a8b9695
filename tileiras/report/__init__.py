"""What a person looks at: what the compiler made of kernels, side by side by line of the source, and why.

`collect` makes the data of a report of a source (`of_source`) or of a build directory (`of_build`); `page`, `markdown`
and `model.as_json` show it.  `tileiras-report` and `env.TileReport` are the two ways in.  Nothing here decides anything
about code: what a report says it reads from artifacts, notes of builds, machine code and estimates.
"""
