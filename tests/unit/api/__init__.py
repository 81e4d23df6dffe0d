"""The wire formats, bytes to values and back, without a server or a model."""
