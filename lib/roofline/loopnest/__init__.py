"""Loop nests and the bytes they move."""
