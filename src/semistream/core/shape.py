"""What is joined with what: both schemas checked before a row flows, and the output fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from semistream.core.contracts import JOIN_KINDS
from semistream.core.keys import canonical_type
from semistream.core.loop import JoinShape
from semistream.errors import ConfigError, SchemaError

On = str | list[str] | Mapping[str, str]


class TableSchema(Protocol):
    """What has to be known of R."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def key(self) -> tuple[str, ...]: ...

    @property
    def value_schema(self) -> pa.Schema: ...

    @property
    def shards(self) -> int: ...


def resolve_shape(
    stream: pa.Schema,
    table: TableSchema,
    *,
    on: On,
    how: str,
    columns: str | list[str] | None,
    suffix: str | None,
) -> JoinShape:
    """Checks everything about the two sides that can be checked before a row flows, and fixes the output.

    SchemaError or ConfigError with what is wrong.
    """
    kind = JOIN_KINDS.get(how)
    if kind is None:
        raise ConfigError(f"how={how!r} is not a join.", hint=f"choose one of {', '.join(JOIN_KINDS)}.")
    key_positions = _resolve_keys(stream, table, on)
    values = table.value_schema
    if not kind.needs_rows:
        if columns:
            raise ConfigError(
                f"a {how} join puts out the stream's columns only; columns={columns} were asked for.",
                hint="leave columns= out, or use how='inner' or 'left'.",
            )
        chosen: list[str] = []
    else:
        chosen = values.names if columns is None else [columns] if isinstance(columns, str) else list(columns)
        for name in chosen:
            if name not in values.names:
                what = "a key column, which the stream has already" if name in table.key else "unknown"
                raise SchemaError(
                    f"columns= names '{name}', which is {what}.",
                    hint=f"the table's other columns are: {', '.join(values.names) or '(none)'}.",
                )
    fields = _output_fields(stream, [values.field(name) for name in chosen], suffix)
    return JoinShape(
        kind=kind,
        key_positions=key_positions,
        value_positions=tuple(values.names.index(name) for name in chosen),
        output_schema=pa.schema([*stream, *fields]),
        shards=table.shards,
    )


def _resolve_keys(stream: pa.Schema, table: TableSchema, on: On) -> tuple[int, ...]:
    """The positions of the stream's key columns, in the order of the table's key."""
    if isinstance(on, Mapping):
        pairs = dict(on)
    else:
        names = [on] if isinstance(on, str) else list(on)
        if len(set(names)) != len(names):
            raise SchemaError(f"on={names} names a column twice.", hint="name each key column once.")
        pairs = {name: name for name in names}
    by_master = {master: name for name, master in pairs.items()}
    if set(by_master) != set(table.key) or len(by_master) != len(pairs):
        raise SchemaError(
            f"on= names the table's column(s) {', '.join(pairs.values()) or '(none)'}, but its key is "
            f"{', '.join(table.key)}.",
            hint=f'map stream columns to the key, e.g. on={{"customer_id": "{table.key[0]}"}}, or prepare the '
            "table with another key=.",
        )
    positions = []
    for master in table.key:
        name = by_master[master]
        at = [position for position, each in enumerate(stream.names) if each == name]
        if not at:
            raise SchemaError(
                f"the stream has no column '{name}'.", hint=f"it has: {', '.join(stream.names)}."
            )
        if len(at) > 1:
            raise SchemaError(
                f"the stream has {len(at)} columns '{name}', and on= names one.",
                hint="rename or drop the others before the join.",
            )
        found, wanted = stream.field(at[0]).type, table.schema.field(master).type
        if canonical_type(found) != canonical_type(wanted):
            raise SchemaError(
                f"the stream's '{name}' is {found}, the table's '{master}' is {wanted}.",
                hint="cast one side; integers of any width fit each other, other types must be equal.",
            )
        positions.append(at[0])
    return tuple(positions)


def _output_fields(stream: pa.Schema, values: list[pa.Field], suffix: str | None) -> list[pa.Field]:
    taken = {name.lower() for name in stream.names}
    fields = []
    for field in values:
        name = field.name
        if name.lower() in taken and suffix:
            name += suffix
        if name.lower() in taken:
            raise SchemaError(
                f"both sides have a column '{name}'.",
                hint='choose the table\'s columns with columns=[...], or rename the clashing ones with suffix="_m".',
            )
        taken.add(name.lower())
        fields.append(field.with_name(name).with_nullable(True))
    return fields
