"""Speech to text: what turns a file of sound into segments, on Whisper models of mlx-whisper.

file ─► sound ─► features ─► voice     on a worker thread
                    └─► window ─► segments ─► words     on the device thread, in slices
"""
