"""Wire formats as pure translators: bytes to `GenerateRequest`, events to bytes."""
