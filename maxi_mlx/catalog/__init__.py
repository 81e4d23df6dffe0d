"""Which models exist on this machine, found and classified from files alone, without MLX."""
