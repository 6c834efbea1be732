"""What the parts of a server share."""

from __future__ import annotations

from typing import NamedTuple, Optional

from webui.catalogue import Catalogue
from webui.limits import Limits
from webui.models import Pool


class State(NamedTuple):
    """One server."""

    catalogue: Catalogue
    pool: Pool
    limits: Limits
    token: Optional[str]  # what a request must bring; None: nothing
    local: bool  # whether only this machine can reach it
