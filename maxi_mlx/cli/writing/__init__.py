"""Markdown to a terminal as it comes: each character once, in its place, never drawn over again."""
