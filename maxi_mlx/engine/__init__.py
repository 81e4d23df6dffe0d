"""The only floor that imports MLX: it runs models, and knows nothing of HTTP."""
