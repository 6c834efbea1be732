"""The base class of all sections, and the types that several of them use."""

from __future__ import annotations

import json
import os
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from seq2seq_chat.system.errors import UserError


class ConfigError(UserError):
    """An invalid configuration; the message names the key, the problem and the remedy."""


def _file_path(path: str) -> str:
    try:
        if path and b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise ValueError(f"must be the path of a file (it is {json.dumps(path)})")


PositiveInt = Annotated[int, Field(gt=0, le=10**9)]
FilePath = Annotated[str, AfterValidator(_file_path)]


class Section(BaseModel):
    """Base class of all sections: no unknown keys, no type conversions, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
