"""Recurrent and tree-shaped networks written as recursive Relay, with seeded weights."""
