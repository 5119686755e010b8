"""Real trained networks with data: where they come from, how they are fed, what they should answer."""
