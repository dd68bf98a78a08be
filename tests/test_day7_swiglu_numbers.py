"""Numbers of day7_swiglu, as arithmetic a reader can redo. Nothing here comes from `problems`."""

NUMBERS: dict = {}
SLIPS: dict = {}
