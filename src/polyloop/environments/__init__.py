"""The second consumer (S2.1, S2.18): an environment that is acted on and says by itself when the question is over.

`EnvironmentActions` makes an executor of anything with reset and step; `Gym` adapts Gymnasium's environments, `CommandTask` is a
task at a command line with a program that checks it.
"""

from .adapter import Environment, EnvironmentActions, Stepped, executed, step_tool
from .command import CommandTask
from .gym import Gym

__all__ = ["CommandTask", "Environment", "EnvironmentActions", "Gym", "Stepped", "executed", "step_tool"]
