"""Media: models and their prices, tasks that generate, assets that are verified, and tools that look at pictures."""
