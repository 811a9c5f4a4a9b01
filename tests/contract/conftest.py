from __future__ import annotations

import sys
from pathlib import Path

# Stand-ins of the unit tests (a server that answers, a driver) serve here too.
sys.path.append(str(Path(__file__).parents[1] / "unit"))
