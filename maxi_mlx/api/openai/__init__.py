"""The OpenAI API: schema (the wire), parse (wire to request), write (events to bytes)."""
