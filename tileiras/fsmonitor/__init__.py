"""A process of the user's that watches the folders of running checkouts, and tells a build what has changed in them.

As Git's fsmonitor does: a build names the point up to which it has looked at the files itself, and is told which have
been touched since.  What cannot be told with certainty is not told; a build then looks at every file, as it does where
nobody watches.
"""
