"""Records: every result as plain values, stored and read back without loss, and as labelled arrays and tables.

A class joins with the decorator ``record("kind")``; a result also derives from ``Result``. Nothing that is read is
executed.
"""

from aimtheory.records.codec import decode as decode
from aimtheory.records.codec import encode as encode
from aimtheory.records.registry import field_values as field_values
from aimtheory.records.registry import kind_of as kind_of
from aimtheory.records.registry import kinds as kinds
from aimtheory.records.registry import record as record
from aimtheory.records.registry import register as register
from aimtheory.records.result import Result as Result
from aimtheory.records.storage import as_data as as_data
from aimtheory.records.storage import read as read
from aimtheory.records.storage import save as save
from aimtheory.records.storage import to_json as to_json
from aimtheory.records.variable import Variable as Variable
from aimtheory.records.variable import numbers as numbers

__all__ = [
    "Result",
    "Variable",
    "as_data",
    "decode",
    "encode",
    "field_values",
    "kind_of",
    "kinds",
    "numbers",
    "read",
    "record",
    "register",
    "save",
    "to_json",
]
