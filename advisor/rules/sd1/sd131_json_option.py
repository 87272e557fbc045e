import json
from typing import Any

from advisor.domain.nouns import Case, Flag
from advisor.domain.patterns import lazy_re
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule
from advisor.rules.kit.fixes import json_fix, json_rename_fix
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.json_text import CLASSES, has_empty_values, mend_fix, problem
from advisor.rules.kit.numbers import likely_number, outside, wrong_type
from advisor.rules.kit.values import nearest, not_a_choice, slip, unknown_key

OWN_RULE = "--speculative-config"  # SD109 and SD110
# options that take an object and nothing else, whatever their value begins with; so do all that
# vLLM reads into a configuration class
OBJECTS = ("--hf-overrides",)
CONNECTORS = tuple(table("compatibility")["kv_connectors"]["value"])
# keys of objects that no class of vLLM's describes; another one is passed over
KEYS = {
    "--override-generation-config": (
        *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens"),
        *("presence_penalty", "frequency_penalty", "do_sample", "eos_token_id", "stop_strings"),
    ),
    "--limit-mm-per-prompt": ("image", "video", "audio"),
    "--limit-mm-data-per-request": ("image", "video", "audio"),  # SGLang refuses another
}
# what each key of an object takes
TYPES = {"--limit-mm-per-prompt": "int | dict", "--limit-mm-data-per-request": "int"}
_PAIRS = lazy_re(r"\w+=\d{1,6}(?:,\w+=\d{1,6})*")
# classes inside the classes
PARTS = {"pass_config": "PassConfig", "eplb_config": "EPLBConfig"}
TEXTS = lazy_re(r"--(?:json-model-override-args|chat-template-kwargs|json-schema|kv-events-config)")


@rule("SD131", "error", "catalogued", versioned=True)
def json_option(case: Case) -> Hits:
    """An option that takes JSON, with broken JSON in it, or a key or value that its class lacks.

    Why: the server does not start; quotes lost in a shell and Python's True are usual causes.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --compilation-config '{"cudagraph_mode":
        True}'
    Good (version=0.25.1): with "FULL" for True
    Sources: vllm 0.19.1 to 0.33.0 vllm/config, classes run; vllm-project/vllm
        vllm/config/kv_transfer.py (__post_init__); vllm-project/vllm#20059;
        vllm-project/vllm#16837; vllm-project/vllm#21615; python/cpython Lib/json
    """
    for found in case.launch.flags:
        name, _, key = found.name.partition(".")
        if not found.known or found.unresolved or found.value is None or name == OWN_RULE:
            continue
        if key:
            yield from keys(case, found, name, {key.partition(".")[0]: _scalar(found.value, key)})
        elif takes_object(case, found):
            option = catalogue(case).find(found.name, catalogued_version(case))
            free = option is not None and isinstance(option.default, list)  # any JSON
            broken = problem(found.value, object if free else dict)
            if has_empty_values(found):
                continue
            if broken is not None:
                yield Hit(
                    f"{found.raw} is not {'JSON' if free else 'a JSON object'}: {broken}",
                    flag=found,
                    # put together from variables, some of which the reading may not know
                    severity="warning" if found.value_span is None else None,
                    fix=mend_fix(case, found, f"Write the value of {found.raw} as JSON."),
                    everywhere=True,
                    # image=2,video=1 is how releases before 0.10.0 took it
                    versions="0.10.0 and later" if (old := _PAIRS.fullmatch(found.value)) else "",
                    slip=not old,
                )
            elif not free:
                given = json.loads(found.value)
                hits = [*keys(case, found, name, given)]
                yield from hits
                alone = not hits and not given.get("kv_role") and not case.flag(f"{name}.kv_role")
                if alone and given.get("kv_connector"):
                    yield Hit(
                        f"{found.raw} names a kv_connector and no kv_role, which it needs",
                        flag=found,
                        fix="Add kv_role: kv_producer, kv_consumer or kv_both.",
                        everywhere=True,
                    )


def takes_object(case: Case, found: Flag) -> bool:
    """Whether the value must be a JSON object, and is no level, file or class."""
    value = (found.value or "").strip()
    if "." in found.name or not value:
        return False
    option = catalogue(case).find(found.name, catalogued_version(case))
    if option is None:
        return False
    wanted = catalogue(case).takes_json(option) or TEXTS.fullmatch(found.name) is not None
    if wanted and option.type in ("json", "loads"):
        return value not in ("null", "None")
    whole = option.type == "parse_dataclass" or found.name in OBJECTS
    return wanted and (
        value.startswith("{") or (whole and not value.isdigit() and value[:1] not in ("[", "@"))
    )


def _scalar(value: str, key: str) -> Any:
    if "." in key:
        return None
    try:
        return json.loads(value) if value[:1] in ("[", "{", '"') else value
    except (ValueError, RecursionError):
        return value


def keys(case: Case, found: Flag, name: str, given: dict[str, Any]) -> Hits:
    """Keys that the option's class lacks, and words that its fields do not take."""
    config = CLASSES.get(name)
    yield from loose(case, found, name, given)
    if config is None or case.plan.engine != "vllm":
        return
    known = catalogue(case)
    fields = known.json_fields(config, catalogued_version(case))
    for key, value in given.items():
        if key in fields:
            yield from words(case, found, config, key, value)
        elif fields:
            ever = known.json_field(config, key, None) is not None
            yield unknown_key(case, found, name, key, given, fields, ever=ever, sole=True)


def fields_of(case: Case, found: Flag, place: str, config: str, given: dict[str, Any]) -> Hits:
    """Keys and types of an object inside an option's object."""
    known, version = catalogue(case), catalogued_version(case)
    fields = known.json_fields(config, version)
    for key, value in given.items():
        if key in fields:
            row = known.json_field(config, key, version) or {}
            yield from check_type(case, found, key, row, value, f" of {place}")
        elif fields and known.json_field(config, key, None) is None:
            yield unknown_key(case, found, place, key, given, fields)


def check_type(
    case: Case, found: Flag, key: str, row: dict[str, Any], value: Any, where: str = ""
) -> Hits:
    """A value of another type than the field's, or outside its limits."""
    said = wrong_type(str(row.get("type", "")), value) or outside(row.get("limits"), value)
    if said is None or value is None:
        return
    shown = json.dumps(value)[:60]
    kind = next((one for one in ("int", "float") if str(row.get("type")).startswith(one)), None)
    meant = likely_number(kind, value) if kind and isinstance(value, str) else None
    what = f"Write {meant}." if meant is not None else f"Give '{key}' {said}."
    yield Hit(
        f"'{key}'{where} takes {said}, not {shown}",
        flag=found,
        fix=json_fix(case, found, key, meant, what) if meant is not None else what,
        versions="all catalogued releases",
        slip=True,
    )


def loose(case: Case, found: Flag, name: str, given: dict[str, Any]) -> Hits:
    """A key that is nearly a known one, where others may stand."""
    known = KEYS.get(name, ())
    if name in TYPES:
        for key, value in given.items():
            yield from check_type(case, found, key, {"type": TYPES[name]}, value)
    for key in given:
        near = nearest(key, known) if known and key not in known else None
        if near is not None and near not in given and slip(key, near):
            yield Hit(
                f"{name} has no key '{key}'; the nearest is '{near}'",
                flag=found,
                severity=None if name == "--limit-mm-data-per-request" else "warning",
                fix=json_rename_fix(case, found, key, near, f"Use '{near}'."),
                everywhere=True,
            )


def words(case: Case, found: Flag, config: str, key: str, value: Any, where: str = "") -> Hits:
    """A word that is on the list of no release that has the key."""
    known = catalogue(case)
    row = known.json_field(config, key, catalogued_version(case)) or {}
    yield from check_type(case, found, key, row, value, where)
    # names that vLLM's factory registers; a module or an image of one's own brings others
    other = key == "kv_connector" and isinstance(value, str) and value not in CONNECTORS
    if other and nearest(value, CONNECTORS) and "module_path" not in (found.value or ""):
        yield not_a_choice(case, found, key, value, CONNECTORS, everywhere=not case.launch.fork)
    if isinstance(value, dict) and (inner := PARTS.get(key)) is not None:
        yield from fields_of(case, found, key, inner, value)
    choices = tuple(str(choice) for choice in row.get("choices") or ())
    if not choices or not isinstance(value, str) or "." in value or value.isdigit():
        return
    if value.lower() not in {choice.lower() for choice in choices}:
        rows = (known.json_field(config, key, version) or {} for version in known.versions)
        ever = (str(one).lower() for row in rows for one in row.get("choices") or ())
        yield not_a_choice(
            case,
            found,
            key,
            value,
            choices,
            where=where,
            usual=row.get("default"),
            versions=f"the newest catalogued release ({known.newest})",
            everywhere=value.lower() not in ever,
        )
