"""`unspecialized-pipeline`: `tileas-unspecialized-pipeline` by the name that the documented pass list has for it."""

from __future__ import annotations

from tileiras.schedule.materialize import loops


class UnspecializedPipeline(loops.UnspecializedPipeline):
    name = "unspecialized-pipeline"
