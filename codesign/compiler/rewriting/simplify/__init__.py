"""Rules that replace an expression by a simpler one of the same value and type."""
