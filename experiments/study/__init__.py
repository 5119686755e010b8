"""The hardware study: questions, each with its plan, its measured points and its answer."""
