"""The one font that is shipped: Noto Sans SC Regular (OFL, licence beside it), cut down to GB2312, punctuation, Latin, Greek and Cyrillic.

Whatever is drawn or printed with text uses this file, so that a machine without fonts of its own shows Chinese all the same. What
a text holds beyond it shows as an empty box: ask its character map first and say so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FONT: Final = Path(__file__).with_name("fonts") / "NotoSansSC.ttf"
