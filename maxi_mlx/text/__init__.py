"""Pure machines on text: feed something in, get something out. No clock, socket, thread or MLX."""
