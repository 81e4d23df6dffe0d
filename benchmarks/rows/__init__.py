"""What is promised of the server's speed: one module a row of the table."""
