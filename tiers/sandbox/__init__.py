"""Running other people's programs: the sandbox, its probing, and what runs inside of it."""
