"""The pieces that our JSON Schemas (draft 2020-12) are made of."""

from __future__ import annotations

from typing import Any, get_args

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
NUMBER: Schema = {"type": "number"}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
BOOLEAN_OR_NULL: Schema = {"type": ["boolean", "null"]}
TEXTS: Schema = {"type": "array", "items": TEXT}


def object_of(properties: Schema) -> Schema:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def list_of(items: Schema) -> Schema:
    """Return the schema of a list of such items."""
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    """Return a reference to a named definition of the same schema."""
    return {"$ref": f"#/$defs/{name}"}


def or_null(schema: Schema) -> Schema:
    """Return a schema that also accepts null."""
    return {"anyOf": [schema, {"type": "null"}]}


def enum(literal: Any) -> Schema:
    """Return the schema of the values of a Literal type."""
    return {"enum": list(get_args(literal))}
