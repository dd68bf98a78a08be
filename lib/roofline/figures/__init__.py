"""Live figures and question forms: one ES module each, fed by numbers Python computed.

Question  how does a page answer a reader who drags, types or guesses, without a kernel?
Answer    Live puts a module and its data into HTML; form asks a problem, prediction a guess at
          a result; roofline, crossover, explorer, nest and clockwork ask for a guess, reveal, and
          are dragged or played; timeline zooms; recount counts a kernel again as its settings
          move, in JupyterLab by the notebook's kernel
Assumes   a browser of 2023 or later; without script each shows its text and data
Ignores   the network: nothing is fetched, so a saved page works from a file too
"""

from .clockworks import clockwork
from .crossovers import crossover
from .explorers import explorer
from .forms import form, form_script
from .live import Live
from .nests import nest
from .predictions import PredictionError, prediction
from .recounts import recount
from .rooflines import Case, roofline
from .timelines import stretches, timeline

__all__ = [
    "Case", "Live", "PredictionError", "clockwork", "crossover", "explorer", "form", "form_script",
    "nest", "prediction", "recount", "roofline", "stretches", "timeline",
]
