"""The document audit, first consumer of the kernel."""
