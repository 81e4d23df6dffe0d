"""How commands at the terminal ask a server for an answer: finding or starting one, its stream."""
