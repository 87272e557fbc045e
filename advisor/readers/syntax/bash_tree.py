"""The syntax tree of a shell text, by tree-sitter's grammar of bash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.readers.syntax.cut_off import LOOSE_END
from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.mapped import HOLE

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_NON_ASCII = Lazy(r"[^\x00-\x7f]")
_REMARK = Lazy(
    r"(?<!\S)`#[^`\n]*`"
)  # a comment among the options: the grammar would take it to the line's end
_parser: list[Any] = []


def _get_parser() -> Parser:
    if not _parser:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        _parser.append(Parser(Language(tree_sitter_bash.language())))
    parser: Parser = _parser[0]
    return parser


def _parsable(text: str) -> bytes:
    """The text as single bytes, so that byte offsets are character offsets; Windows newlines made
    harmless.

    An unknown value is one word, whatever stands in its name: $(seq -s ' ' 1 64).
    """
    text = HOLE.sub(lambda found: "_" * len(found.group()), text)
    text = _REMARK.sub(lambda found: " " * len(found.group()), text)
    text = LOOSE_END.sub(lambda found: found.group(1) + "\\", text)
    if "\r" in text:
        text = text.replace("\\\r\n", " \\\n").replace("\r\n", " \n")
    return _NON_ASCII.sub("_", text).encode("ascii")


def parse(text: str) -> Node:
    """The root of the tree; its byte offsets are offsets of characters in the text."""
    return _get_parser().parse(_parsable(text)).root_node
