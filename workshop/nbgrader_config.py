"""nbgrader's settings for a school that grades the course: work/workshop/ is its course folder.

    cd workshop
    ../.venv/bin/nbgrader generate_assignment day1
    ../.venv/bin/nbgrader autograde day1

An assignment is a folder of pages. Released notebooks are those of `course.py workshop student`,
byte for byte; answers and hidden tests stay in key/ and in gradebook.db.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nbgrader import preprocessors as nbgrader  # noqa: E402

from workshop import MADE  # noqa: E402
from workshop.editions import CONFIG, Blanks  # noqa: E402

# nbgrader calls alembic by its name.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# A submission is graded with the measurements that ship, not with those of this machine.
os.environ.setdefault("ROOFLINE_RECORDED", "1")

c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.merge(CONFIG)
c.CourseDirectory.root = str(MADE)
c.CourseDirectory.course_id = "roofline"
c.CourseDirectory.source_directory = "key"
c.GenerateAssignment.preprocessors = [
    nbgrader.IncludeHeaderFooter, nbgrader.LockCells, nbgrader.ClearSolutions,
    nbgrader.ClearOutput, nbgrader.CheckCellMetadata, nbgrader.ComputeChecksums,
    nbgrader.SaveCells, nbgrader.ClearHiddenTests, nbgrader.ClearMarkScheme, Blanks,
    nbgrader.ComputeChecksums, nbgrader.CheckCellMetadata]
c.Execute.timeout = 300  # seconds a cell
