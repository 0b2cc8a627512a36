"""Documents an agent can write without lying about it: a service, the seam to it, and the runtime that proves its writes."""
