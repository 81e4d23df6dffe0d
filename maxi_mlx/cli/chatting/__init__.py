"""A conversation at the terminal: what is typed, what is answered, what is kept."""
