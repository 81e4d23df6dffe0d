"""``python -m maxi_mlx`` is the ``maxi-mlx`` command."""

from maxi_mlx.cli.main import main

if __name__ == "__main__":
    main()
