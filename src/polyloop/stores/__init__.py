"""Where logs are kept. `open_log` opens the durable one, `MemoryLog` keeps it in a dict."""
