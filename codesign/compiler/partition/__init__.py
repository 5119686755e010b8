"""Which operator runs where, and why."""
