"""One local endpoint for the MLX models on this machine, in the APIs AI clients already speak."""

__version__ = "0.1.0"
