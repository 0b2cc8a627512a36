"""What is kept of operations, whatever their subject: intents with their receipts, approvals, what sessions have seen."""
