"""The class service: it judges answers and shows what the class shares. `python -m` starts it.

questions    what a notebook sends, judged in a process of its own
predictions  what the student notebooks ask to be guessed, and bars of the guesses
records      what participants chose to share, in SQLite
app          addresses, pages, who may see what
remote       what takes the place of roofline.problems in a participant's environment
"""
