"""A per-user daemon that watches the folders of checkouts and reports changed files to builds.

The protocol follows Git's fsmonitor: a build sends the token up to which it has checked the files itself, and receives
the files touched since.  If the monitor cannot answer with certainty it does not answer; the build then checks every
file, as it does without a monitor.
"""

from __future__ import annotations

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
