"""HTTP on aiohttp: the only floor that sees both the wire formats and the engine."""
