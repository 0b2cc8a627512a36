"""N phases over runs: each phase is one agent run after another until the files it must make are there, and proved (S2.3, S2.7).

`Flow` says what is to be done, `run_flow` does it, `FlowLog` remembers it. Phases exchange state through workspace files only.
"""

from .flow import Drive, FlowResult, PhaseOutcome, run_flow
from .flowlog import FlowLog, Noted, flow_stream, sealed_lines
from .phase import Flow, Phase, Recovered, Required, text_prompt

__all__ = [
    "Drive",
    "Flow",
    "FlowLog",
    "FlowResult",
    "Noted",
    "Phase",
    "PhaseOutcome",
    "Recovered",
    "Required",
    "flow_stream",
    "run_flow",
    "sealed_lines",
    "text_prompt",
]
