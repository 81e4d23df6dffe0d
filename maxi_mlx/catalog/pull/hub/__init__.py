"""Fetches a model from the Hugging Face hub, or a mirror of it, into the hub's own cache.

repository  what is asked for: its name, and the revision
files       which of a repository's files serve, and why none do
library     what huggingface_hub is asked: what there is, a file's bytes; its errors in plain words
transfer    one file, whole and checked, going on where an earlier run was cut
cache       where the cache has its files
pulling     the whole way: lock, list, room, files

huggingface_hub's own download begins every file anew after a cut, and can't be told to stop. So it
answers for names, tokens, proxies and the list; the bytes are written here, in its layout.
"""
