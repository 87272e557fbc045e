"""Nouns as JSON objects, and the JSON Schemas (draft 2020-12) of these objects, by the names of the
commands that print or read them: one table of keys for both, with the types that nouns declare.

Numbers that are not finite become null: the objects are strict JSON. Keys are stable; new ones may
be added.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from advisor.domain.frozen import Frozen
from advisor.domain.nouns import AdvisorError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
SHARE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": ["number", "null"]},
    Any: {},
}


class Shape:
    """How a noun is shown: the keys of its object, each the field of that name and type unless
    `values` computes it or `kinds` has a schema; `about` describes keys. `identity` makes it a
    whole document. `listed`: wherever the noun stands in another it has this shape. `optional` keys
    may lack.
    """

    listed: dict[Any, "Shape"] = {}  # noqa: RUF012 - the one table of all shapes

    def __init__(
        self,
        noun: Any,
        name: str,
        keys: str | Sequence[str],
        *,
        about: Mapping[str, str] | None = None,
        values: Mapping[str, Callable[[Any], Any]] | None = None,
        kinds: Mapping[str, Schema] | None = None,
        identity: str = "",
        listed: bool = True,
        optional: str | None = None,
    ) -> None:
        self.noun, self.name = noun, name
        self.keys = keys.split() if isinstance(keys, str) else keys
        self.about, self.values, self.kinds = about or {}, values or {}, kinds or {}
        self.identity, self.optional = identity, optional
        if listed:
            self.listed[noun] = self

    def json(self, noun: Any) -> dict[str, Any]:
        """The object, of plain dicts, lists, strings, numbers, booleans and None."""
        head = {"schema": self.identity} if self.identity else {}
        values = self.values
        return head | {
            key: plain(values[key](noun) if key in values else getattr(noun, key))
            for key in self.keys
        }

    def schema(self) -> Schema:
        """An object with exactly these keys."""
        hints = get_type_hints(self.noun)
        parts: Schema = {"schema": {"const": self.identity}} if self.identity else {}
        for key in self.keys:
            parts[key] = self.kinds[key] if key in self.kinds else schema_of(hints[key])
            if key in self.about:
                parts[key] = parts[key] | {"description": self.about[key]}
        words = {"description": self.about[""]} if "" in self.about else {}
        needed = [key for key in parts if key not in (self.optional or "").split()]
        return object_of(parts, needed if self.optional else None) | words

    def document(self) -> Schema:
        """The schema of what a command prints with `--format json`, complete in itself."""
        return document(self.identity, self.name, self.schema())


def plain(value: Any) -> Any:
    """Nouns as objects, tuples as lists, None in place of a number that JSON cannot hold."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if (shape := Shape.listed.get(type(value))) is not None:
        return shape.json(value)
    if isinstance(value, Frozen):
        return {name: plain(part) for name, part in value}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    return value


def text_of(data: Any) -> str:
    """An object as indented ASCII JSON with a line feed: it survives any output encoding."""
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def schema_of(hint: Any) -> Schema:
    """The schema of the values of a type."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return or_null(schema_of(next(part for part in parts if part is not NoneType)))
    if kind is Literal:
        return {"enum": list(parts)}
    if kind is dict:
        return {"type": "object", "additionalProperties": schema_of(parts[1])}
    if kind is tuple and Ellipsis not in parts:
        return list_of(schema_of(parts[0])) | {"minItems": len(parts), "maxItems": len(parts)}
    if kind is not None:
        return list_of(schema_of(parts[0]))
    if hint in Shape.listed:
        return {"$ref": f"#/$defs/{Shape.listed[hint].name}"}
    return _PLAIN[hint]


def or_null(schema: Schema) -> Schema:
    """A schema that also accepts null."""
    if "enum" in schema:
        return schema | {"enum": [*schema["enum"], None]}
    kind = schema.get("type")
    if isinstance(kind, str):
        return schema | {"type": [kind, "null"]}
    return schema if kind else {"anyOf": [schema, {"type": "null"}]}


def list_of(items: Schema) -> Schema:
    """The schema of a list of such items."""
    return {"type": "array", "items": items}


def object_of(properties: Schema, required: Sequence[str] | None = None) -> Schema:
    """An object with exactly these keys; with `required` others may lack, and more be added."""
    strict = {"required": list(properties), "additionalProperties": False}
    rest = strict if required is None else {"required": list(required)}
    return {"type": "object", "properties": properties} | rest


def document(identity: str, command: str, body: Schema, defs: Schema | None = None) -> Schema:
    """A whole schema with the shapes that it refers to."""
    defs, names = dict(defs or {}), {shape.name: shape for shape in Shape.listed.values()}
    waiting = [body]
    while waiting:
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(waiting.pop())):
            if name not in defs and name in names:
                defs[name] = names[name].schema()
                waiting.append(defs[name])
    head = {"$schema": DIALECT, "$id": identity, "title": f"advisor {command} --format json"}
    return head | body | ({"$defs": defs} if defs else {})


def inline(schema: Schema) -> Schema:
    """A schema without references to its own $defs, which OpenAPI would look for elsewhere."""
    parts = schema.get("$defs", {})

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        rest = {
            key: walk(value)
            for key, value in node.items()
            if key not in ("$defs", "$schema", "$id", "$ref")
        }
        reference = str(node.get("$ref", ""))
        return walk(parts[reference.rsplit("/", 1)[-1]]) | rest if reference else rest

    whole: Schema = walk(schema)
    return whole


# what `advisor schema NAME` prints -> what makes it
SCHEMAS = {
    "recommend": "advisor.render.json_out:ANSWER.document",
    "validate": "advisor.render.findings.json_out:validate_schema",
    "sweep": "advisor.render.explore.json_out:SWEEP.document",
    "policy": "advisor.render.explore.json_out:POLICY.document",
    "compare": "advisor.render.explore.compare:COMPARISON.document",
    "compare-loads": "advisor.render.explore.compare:LOADS.document",
    "why-not": "advisor.render.explore.compare:WHY_NOT.document",
    "plan": "advisor.render.explore.plan:PLAN.document",
    "results": "advisor.render.own_runs:results_schema",
    "ab": "advisor.render.own_runs:ab_schema",
    "receipt": "advisor.render.receipt:receipt_schema",
    "hardware": "advisor.domain.nouns:Hardware.model_json_schema",
    "model": "advisor.domain.nouns:LLM.model_json_schema",
}


def named_schema(name: str) -> Schema:
    """The schema of one command. Raises AdvisorError for a name that has none."""
    target = SCHEMAS.get(name)
    if target is None:
        raise AdvisorError(f"no schema is called '{name}'; there are {', '.join(SCHEMAS)}")
    modules = {known: import_module(known.partition(":")[0]) for known in SCHEMAS.values()}
    maker = modules[target]  # all of them: a shape may hold nouns of another
    for attribute in target.partition(":")[2].split("."):
        maker = getattr(maker, attribute)
    schema: Schema = maker()  # type: ignore[operator]
    return {"$schema": DIALECT} | schema
