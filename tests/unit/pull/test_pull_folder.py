"""A GGUF becomes a folder with the same values, names as MLX has them, and the same tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import dequantize
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from maxi_mlx.catalog.pull.folder import NEEDED_FILES, write_folder
from maxi_mlx.catalog.pull.gguf_file import rotary_row_order
from maxi_mlx.catalog.pull.source import EmbeddedModel, Precision
from maxi_mlx.core.errors import SetupError
from tests.unit.pull.conftest import Remembered
from tests.unit.pull.test_pull_affine import unpacked
from tests.unit.pull.tiny import FINE_NORM, LAYERS, NORM, TEMPLATE, TinyFile, write_tiny

AffineGroups = __import__("maxi_mlx.catalog.pull.affine", fromlist=["AffineGroups"]).AffineGroups
