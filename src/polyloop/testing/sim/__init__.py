"""Deterministic simulation: the real driver under virtual time, over a store, services and processes that fail by seed."""
