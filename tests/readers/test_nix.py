"""Nix modules: every way in which they set a server up, and that nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text

PRESETS = """
{ pkgs, ... }:
let
  presets = pkgs.writeText "presets.ini" ''
    [*]
    parallel = 1

    [one]
    hf-repo = unsloth/Qwen3.6-27B-MTP-GGUF:Q4_K_M
    spec-type = draft-mtp
    spec-draft-n-max = 2
  '';
in {
  virtualisation.oci-containers.containers."llm" = {
    image = "ghcr.io/ggml-org/llama.cpp:server-cuda-b9300";
    cmd = [ "-m" "/m/Qwen3.6-27B-MTP.gguf" "--spec-type" "draft-mtp" "--spec-draft-n-max" "3"
      "--chat-template-kwargs" (builtins.toJSON { enable_thinking = false; }) ];
    volumes = [ "${presets}:/presets.ini:ro" ];
  };
}
"""
OPTIONS = """
{ config, pkgs, ... }: {
  services.llama-cpp = {
    enable = true;   # a remark; and another
    settings = {
      hf-repo = "unsloth/Qwen3.6-35B-A3B-MTP-GGUF:UD-Q4_K_XL";
      ctx-size = 65536;
      parallel = 1;
      jinja = true;
      spec-type = "draft-mtp";
      spec-draft-n-max = 2;
    };
  };
}
"""
MODELS = """
{ pkgs, globals, ... }:
let
  files = { "big" = pkgs.fetchurl { url = "https://example.org/Qwen3.6-27B-MTP-Q4_K_M.gguf"; hash = "sha256-x="; }; };
in {
  services.llama-cpp = {
    port = globals.port;
    modelsPreset = {
      "big" = { model = files."big"; spec-type = "draft-mtp"; spec-draft-n-max = "4"; };
      "small" = { model = "/m/Qwen3-4B.gguf"; ctx-size = "8192"; };
    };
  };
}
"""
FLAGS = """
{ services.llama-cpp = { model = "/m/Qwen3.6-27B-MTP.gguf"; extraFlags = [ "-c" "8192" ] ++ [ "--spec-type" "draft-mtp" ]; }; }
"""
SWAP = """
{ pkgs, lib, ... }:
let
  server = lib.getExe' pkgs.llama-cpp "llama-server";
  start = { file, port ? 9000, more ? [ ] }:
    lib.concatStringsSep " " ([ "${server}" "--port ${toString port}" "-m /m/${file}" ] ++ more);
in {
  services.llama-swap = {
    enable = true;
    settings = {
      macros.base = ''${server} --port ''${PORT} -np 1'';
      models = {
        "a" = { cmd = ''
          ''${base} \\
            -m /m/Qwen3.6-27B-MTP.gguf --spec-type draft-mtp --spec-draft-n-max 2
        ''; };
        "b".cmd = start { file = "Qwen3.6-35B-A3B-MTP.gguf"; more = [ "--spec-type draft-mtp" "--spec-draft-n-max 3" ]; };
      };
    };
  };
}
"""
UNIT = """
{ pkgs, ... }: {
  systemd.services.vllm.serviceConfig.ExecStart =
    "${pkgs.vllm}/bin/vllm serve Qwen/Qwen3.6-27B --speculative-config '{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":2}'";
  systemd.services.other.script = ''
    exec llama-server -m /m/Qwen3.6-27B-MTP.gguf --port "''${PORT:-8080}" --spec-type draft-mtp --spec-draft-n-max 1
  '';
}
"""


def read(tmp_path: Path, text: str) -> list[tuple[str, str, int]]:
    path = tmp_path / "module.nix"
    path.write_text(text, encoding="utf-8")
    return sorted(
        (one.launch.engine, one.plan.method, one.plan.k) for one in validate(str(path)).launches
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PRESETS, [("llama-server", "mtp", 2), ("llama-server", "mtp", 3)]),
        (OPTIONS, [("llama-server", "mtp", 2)]),
        (MODELS, [("llama-server", "mtp", 4), ("llama-server", "none", 0)]),
        (SWAP, [("llama-server", "mtp", 2), ("llama-server", "mtp", 3)]),
        (UNIT, [("llama-server", "mtp", 1), ("vllm", "mtp", 2)]),
    ],
    ids=["container-and-presets", "settings", "models-preset", "llama-swap", "units"],
)
def test_servers_of_a_module_are_found(
    tmp_path: Path, text: str, expected: list[tuple[str, str, int]]
) -> None:
    assert read(tmp_path, text) == expected


def test_words_stand_where_the_file_has_them() -> None:
    launch = next(
        one for one in read_text(PRESETS, "a.nix").launches if one.flag("--chat-template-kwargs")
    )
    found = launch.flag("--spec-draft-n-max")
    assert found is not None and found.value == "3" and found.value_span is not None
    assert PRESETS[found.value_span.start : found.value_span.end] == "3"
    assert (
        launch.version_text == "b9300"
        and launch.flag("--chat-template-kwargs").value == '{"enable_thinking": false}'
    )  # type: ignore[union-attr]


def test_flags_beside_a_model_and_lists_put_together() -> None:
    launch = read_text(FLAGS, "a.nix").launches[0]
    assert launch.model == "/m/Qwen3.6-27B-MTP.gguf"
    assert [(one.name, one.value) for one in launch.flags][1:] == [
        ("--ctx-size", "8192"),
        ("--spec-type", "draft-mtp"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{ pkgs, ... }: { environment.systemPackages = [ pkgs.llama-cpp pkgs.vllm ]; }",
        '{ options.services.llama-cpp.enable = lib.mkEnableOption "llama-server --spec-type '
        'draft-mtp"; }',
        "let a = { b = a; }; c = c; in { services.llama-cpp.model = c; x = a.b.b.b; }",
        "{ x = ''unclosed ${ { [ ( \" ",
        "{" * 3000,
        "[ " * 3000 + "llama-server -m a",
        "a: " * 3000,
        "((((" * 2000 + "''" * 999,
    ],
    ids=[
        "packages",
        "option",
        "circles",
        "unclosed",
        "braces",
        "brackets",
        "functions",
        "parentheses",
    ],
)
def test_what_starts_nothing_or_is_broken_does_no_harm(text: str) -> None:
    assert [
        one for one in read_text(text, "a.nix").launches if one.model not in (None, "${c}")
    ] == []


def test_two_dollar_signs_open_nothing() -> None:
    text = "{ s.script = ''\n  llama-server -m /m/a.gguf --alias '$${x}' -c 4\n''; }"
    launch = read_text(text, "a.nix").launches[0]
    assert [one.value for one in launch.flags if one.name == "--alias"] == ["$${x}"]
