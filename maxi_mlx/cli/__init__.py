"""The ``maxi-mlx`` command: one file a subcommand."""
