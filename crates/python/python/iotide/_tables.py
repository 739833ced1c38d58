"""Tables: read when they are asked for, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from . import _iotide

if TYPE_CHECKING:
    import numpy

_SHOWN = 10


class Table:
    """Rows of a trace. Nothing is read before it is asked for, and every use reads anew, a few thousand rows at a time.

    ``pandas.DataFrame``, ``polars.DataFrame``, ``pyarrow.table`` and ``duckdb`` take it by Arrow's interface; `to_pandas` and `to_numpy` need
    no Arrow.
    """

    def __init__(self, inner: _iotide.Table, name: str) -> None:
        self._inner = inner
        self._name = name
        self._n_rows: Optional[int] = inner.n_rows

    @property
    def columns(self) -> List[str]:
        """The names of the columns."""
        return self._inner.columns

    def __len__(self) -> int:
        if self._n_rows is None:
            self._n_rows = sum(len(batch) for batch in self._inner.batches())
        return self._n_rows

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def batches(self) -> Iterator[Dict[str, "numpy.ndarray[Any, Any]"]]:
        """Reads the rows: each batch is a dict of arrays, of which those of numbers are not copied."""
        names = self.columns
        for batch in self._inner.batches():
            yield {name: _array(batch.column(at)) for at, name in enumerate(names)}

    def to_numpy(self, column: Optional[str] = None) -> Any:
        """Returns a column as an array, or all columns as a dict of arrays. A value that does not exist is NaN, or None of texts."""
        import numpy

        names = self.columns
        if column is not None and column not in names:
            raise KeyError(f"no column {column!r}; there are {', '.join(names)}")
        wanted = [(at, name) for at, name in enumerate(names) if column in (None, name)]
        pieces: Dict[str, List[Any]] = {name: [] for _, name in wanted}
        for batch in self._inner.batches():
            for at, name in wanted:
                pieces[name].append(_array(batch.column(at)))
        whole = {name: parts[0] if len(parts) == 1 else _joined(numpy, parts) for name, parts in pieces.items()}
        return whole if column is None else whole[column]

    def __getitem__(self, column: str) -> "numpy.ndarray[Any, Any]":
        array: "numpy.ndarray[Any, Any]" = self.to_numpy(column)
        return array

    def to_pandas(self) -> Any:
        """Returns all rows as a data frame."""
        import pandas  # type: ignore[import-untyped, unused-ignore]

        return pandas.DataFrame(self.to_numpy(), columns=self.columns)

    def _head(self) -> Dict[str, Any]:
        for batch in self.batches():
            return {name: values[:_SHOWN] for name, values in batch.items()}
        return {name: [] for name in self.columns}

    def _n_said(self) -> str:
        return "rows" if self._n_rows is None else f"{self._n_rows:,} rows"

    def __repr__(self) -> str:
        return f"<iotide.Table {self._name}: {self._n_said()}, columns {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        import html

        head = self._head()
        titles = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        rows = ("".join(f"<td>{html.escape(str(value))}</td>" for value in row) for row in zip(*head.values()))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"{html.escape(self._name)}: the first of {self._n_said()}"
        return f"<table><caption>{caption}</caption><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _joined(numpy: Any, parts: List[Any]) -> Any:
    return numpy.concatenate(parts) if parts else numpy.empty(0)


def _array(column: _iotide.Column) -> Any:
    """A column as an array: numbers where they are, texts by their places in the list of texts."""
    import numpy

    values = numpy.asarray(column)
    words = column.words
    nulls = column.nulls
    if words is not None:
        # One more, for what has no text.
        texts = numpy.empty(len(words) + 1, dtype=object)
        texts[: len(words)] = words
        if nulls:
            values = values.copy()
            values[nulls] = len(words)
        return texts[values]
    if nulls:
        values = values.astype("float64")
        values[nulls] = numpy.nan
    return values
