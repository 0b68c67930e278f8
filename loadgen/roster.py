"""`Roster`: a CSV file (RFC 4180) with a line of column names and a row for each analyst."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from loadgen.errors import ConfigError
from loadgen.secretfile import edition, read_text

_WHAT = "csv file"


@dataclass(frozen=True, slots=True)
class Roster:
    """The columns' names and the rows, without empty ones."""

    path: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def cell(self, number: int, column: str) -> str:
        """What analyst ``number``, from 0, has in ``column``.  Raises ConfigError if nothing.

        No message lists the columns: in a file without their names they would be secrets.
        """
        if column not in self.columns:
            raise ConfigError(
                f"identity: {self.path} has no column {column!r}: its first line must name it"
            )
        if number >= len(self.rows):
            count = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
            raise ConfigError(f"identity: {self.path} has {count}, analyst {number} needs one more")
        row, at = self.rows[number], self.columns.index(column)
        text = row[at].strip() if at < len(row) else ""
        if not text:
            raise ConfigError(
                f"identity: {self.path} has nothing in column {column!r} for analyst {number}"
            )
        return text


def roster_of(path: str) -> Roster:
    """The roster in the file ``path``, read once.  Raises ConfigError."""
    return _read(path, edition(path, _WHAT))


@lru_cache
def _read(path: str, written: int) -> Roster:
    import csv
    from io import StringIO

    text = StringIO(read_text(path, _WHAT), newline="")
    try:
        table = [tuple(row) for row in csv.reader(text, strict=True) if any(row)]
    except csv.Error:
        raise ConfigError(f"identity: the {_WHAT} {path} is not valid CSV") from None
    if not table:
        raise ConfigError(f"identity: the {_WHAT} {path} is empty; its first line names columns")
    columns = tuple(name.strip() for name in table[0])
    return Roster(path, columns, tuple(table[1:]))
