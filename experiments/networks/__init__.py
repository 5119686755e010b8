"""Real trained networks with data: where they come from, what they eat, what they answer."""
