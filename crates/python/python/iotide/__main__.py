"""The program ``iotide``."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
from typing import NoReturn, Optional

from . import _iotide


def _own_file() -> Optional[str]:
    """The file that starts this program again: iotide starts helpers of its own."""
    places = [sys.argv[0], os.path.join(sysconfig.get_path("scripts"), "iotide")]
    fitting = (place for place in places if os.path.basename(place) == "iotide" and os.access(place, os.X_OK))
    return next((os.path.abspath(place) for place in fitting), None)


def main() -> NoReturn:
    """Runs the program in the place of Python."""
    # Signals are the program's, which has handlers of its own.
    for number in (signal.SIGINT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    status = _iotide.main(sys.argv[1:], _own_file())
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
