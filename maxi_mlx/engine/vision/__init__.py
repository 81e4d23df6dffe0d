"""Models that see: images to crops and text (worker threads), crops to vectors (device thread).

file's bytes ─► decoding ─► Sight.prepare ─► crops and the text that stands for them
                                               │ the tokenizer, `pictures`
Eyes.look, while it is read ◄─ a prompt with ids of its own for an image's tokens

The language model is mlx-lm's, as for text; only what looks at the image is mlx-vlm's.
"""
