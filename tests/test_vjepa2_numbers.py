"""Numbers of vjepa2, as arithmetic a reader can redo. Nothing here comes from `problems`."""

NUMBERS: dict = {}
SLIPS: dict = {}
