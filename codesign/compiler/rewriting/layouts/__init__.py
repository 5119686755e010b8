"""How tensors lie: what layers want, and how it passes through what is between."""
