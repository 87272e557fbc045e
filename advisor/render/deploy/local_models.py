"""A model of the user's own, a folder or a GGUF: its absolute path, and that in a container."""

import os

from advisor.domain.nouns import AdvisorError, Plan, Request
from advisor.domain.printable import printable
from advisor.domain.records import NamedTuple

PLACE = "/models"  # in a container: a path of the host may lie above files of the image
_PATHS = ("/", "./", "../", "~/")


class ModelMount(NamedTuple):
    """A folder, or a file in the root, of the host and where a container sees it, read-only."""

    source: str
    target: str


def absolute_path(request: Request, plan: Plan) -> str | None:
    """The absolute path of the plan's model; None for a repository, by the words alone."""
    name = plan.model or ""
    own = name and name in request.model and request.model.strip().endswith("/config.json")
    if name.startswith(_PATHS) or own or (name.lower().endswith(".gguf") and ":" not in name):
        return os.path.abspath(os.path.expanduser(name))
    return None


def on_this_machine(request: Request, plan: Plan) -> Plan:
    """The plan with the absolute path of its model where that is a path."""
    path = absolute_path(request, plan)
    return plan if path is None else plan.replace(model=path)


def mount_model(request: Request, plan: Plan) -> tuple[Plan, ModelMount | None]:
    """The plan inside a container, and the mount of its model. Raises AdvisorError."""
    path = absolute_path(request, plan)
    if path is None:
        return plan, None
    if ":" in path or not path.isprintable():
        raise AdvisorError(
            f"{printable(path)} cannot be mounted into a container: rename it without ':' and "
            "control characters"
        )
    inside = f"{PLACE}/{os.path.basename(path) or 'root'}"
    folder = os.path.dirname(path)
    whole = path.lower().endswith(".gguf") and folder != "/"
    mount = ModelMount(folder, PLACE) if whole else ModelMount(path, inside)
    return plan.replace(model=inside), mount
