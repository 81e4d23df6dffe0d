"""Embedding models and rerankers: texts in, vectors or scores out.

tokens    texts to token ids, on worker threads
batches   which inputs share a slice; pure
encoders  loads a model's layers and gives its tokens' vectors
pooling   one vector of many, by the model's own files
models    the whole way of a batch: encoder, pooling, steps; or the scores of pairs
work      a model's requests on the device thread
requests  one request on the event loop
"""
