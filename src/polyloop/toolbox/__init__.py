"""Tools for agents: declare them, gather a run's narrow registry, carry them out.

Cheap to import: schemas, workers and the validator load when they are first needed.
"""

from .context import ToolContext, ToolFailed
from .declare import spec_of, tool

__all__ = ["ToolContext", "ToolFailed", "spec_of", "tool"]
