"""The public Python surface as the type checker sees it: right programs pass in strict mode, mistakes are found where they stand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHECKER = Path(sys.executable).parent / "basedpyright"
#: Settings of the programs under test: strict, and no more than that.
SETTINGS = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportUnusedCallResult": False, "reportUnusedCoroutine": False}


def test_the_checker_refuses_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    """Both files in one call: starting the checker is what costs."""
    programs = [str(HERE / name) for name in ("right.py", "wrong.py")]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**SETTINGS, "include": programs, "extraPaths": [str(HERE.parents[1] / "src")]}))
    command = [CHECKER, "--project", tmp_path, "--pythonpath", sys.executable, "--outputjson"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    found = {(Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["rule"]) for d in said["generalDiagnostics"] if d["severity"] == "error"}
    lines = enumerate((HERE / "wrong.py").read_text().splitlines(), 1)
    assert found == {("wrong.py", number, rule) for number, line in lines for rule in re.findall(r"\breport\w+", line)}
    assert said["summary"]["filesAnalyzed"] == 2
