"""A run's workspace: six operations on one folder that nothing leads out of, and the tools made of them."""

from .tools import WorkspaceTool, workspace_tools
from .workspace import Workspace

__all__ = ["Workspace", "WorkspaceTool", "workspace_tools"]
