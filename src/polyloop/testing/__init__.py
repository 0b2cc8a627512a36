"""Fakes and conformance suites, shipped: what PolyLoop's own tests stand on, others may stand on too."""

from polyloop.clock import ManualClock

from .fakes import ScriptedActions, ScriptedModel, Toolset, said
from .stores import FaultyLog, MemoryStore

__all__ = ["FaultyLog", "ManualClock", "MemoryStore", "ScriptedActions", "ScriptedModel", "Toolset", "said"]
