"""Makes the modules of tests/integration importable: starting and ending programs is theirs."""

import pathlib
import sys

_INTEGRATION = str(pathlib.Path(__file__).resolve().parents[1] / "integration")
if _INTEGRATION not in sys.path:
    sys.path.append(_INTEGRATION)
