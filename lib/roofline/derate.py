"""Why a kernel falls short of a spec roof: one rule a cause, each with its source."""
