"""Tests of the embedded model: its download, its conversion, what the user sees of it."""
