"""What is particular about a provider: what it is sent, what it is not sent, and that no secret of it is shown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import bub
from fakes.scripted import ANTHROPIC, OPENAI, Server, collect, refusal

from bub.agent.models.chat import ChatRequest, stream_chat
from bub.agent.models.client import open_client
from bub.agent.models.endpoint import Endpoint, resolve_endpoint
from bub.agent.models.probe import ask_for_models
from bub.errors import ModelError

KEY = "sk-very-secret-4711"
TOKEN = "the-gateways-token-4712"


@pytest.fixture
async def server(address: str) -> AsyncIterator[Server]:
    async with open_client() as client:
        yield Server(client, address)


def endpoint_of(server: Server, provider: str, model: str = "m", **entry: Any) -> Endpoint:
    """A known provider that is asked at the scripted server."""
    own = {"api_base": f"{server.address}/v1", "api_key": KEY, **entry}
    settings = {"model": f"{provider}:{model}", "temperature": 0.5, "max_tokens": 77, "retries": 0}
    return resolve_endpoint({**settings, "providers": {provider: own}})


async def sent(server: Server, endpoint: Endpoint, words: str | None = None) -> dict[str, Any]:
    """What a provider gets when it is asked: its path, headers and body."""
    words = words or json.dumps([(ANTHROPIC if endpoint.api == "anthropic" else OPENAI).answer("Hi.")])
    await collect(await stream_chat(server.client, endpoint, ChatRequest.of_prompt(words)))
    log = await server.client.get(f"{server.address}/log", params={"model": endpoint.model})
    entry: dict[str, Any] = log.json()[-1]
    return entry


@pytest.mark.anyio
async def test_headers_fields_and_a_query_of_the_settings_go_with_each_request(server: Server) -> None:
    endpoint = endpoint_of(
        server,
        "workshop",
        server.model,
        api_base=f"{server.address}/deployments/one?api-version=2024-10-21&route=%2Fa",
        headers={"X-Title": "Bub", "AUTHORIZATION": "Basic abc", "user-agent": "mine", "x-empty": ""},
        extra_body={"top_k": 20, "max_tokens": 5, "stream_options": None},
    )
    asked = await sent(server, endpoint)
    assert asked["path"] == "/deployments/one/chat/completions?api-version=2024-10-21&route=%2Fa"
    headers = asked["headers"]
    assert (headers["x-title"], headers["authorization"], headers["user-agent"]) == ("Bub", "Basic abc", "mine")
    assert "x-empty" not in headers
    assert (asked["body"]["top_k"], asked["body"]["max_tokens"]) == (20, 5)
    assert "stream_options" not in asked["body"]


@pytest.mark.anyio
async def test_azure_gets_its_key_in_a_header_of_its_own(server: Server) -> None:
    asked = await sent(server, endpoint_of(server, "azure", server.model))
    assert asked["headers"]["api-key"] == KEY
    assert "authorization" not in asked["headers"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "limit", "usage"),
    [
        ("openai", "max_completion_tokens", True),
        ("azure", "max_completion_tokens", True),
        ("bedrock", "max_completion_tokens", True),
        ("vertex", "max_tokens", True),
        ("xai", "max_completion_tokens", True),
        ("moonshot", "max_completion_tokens", True),
        ("mistral", "max_tokens", False),
        ("zai", "max_tokens", False),
        ("lmstudio", "max_tokens", True),
    ],
)
async def test_each_provider_gets_the_words_that_it_knows(
    server: Server, provider: str, limit: str, usage: bool
) -> None:
    body = (await sent(server, endpoint_of(server, provider, server.model)))["body"]
    assert {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} == {limit: 77}
    assert ("stream_options" in body) == usage


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model", "takes_temperature"),
    [
        ("openai:gpt-4.1", True),
        ("openai:gpt-4o", True),
        ("openai:gpt-5-chat-latest", True),
        ("openai:gpt-5-mini", False),
        ("openai:gpt-5.1", False),
        ("openai:o4-mini", False),
        ("azure:o3", False),
        ("anthropic:claude-sonnet-4-5", True),
        ("anthropic:claude-opus-4-20250514", True),
        ("anthropic:claude-3-7-sonnet-latest", True),
        ("anthropic:claude-opus-4-7", False),
        ("anthropic:claude-opus-5", False),
        ("moonshot:kimi-k2.5", False),
        ("moonshot:moonshot-v1-8k", True),
        ("deepseek:deepseek-chat", True),
        ("workshop:o3", True),
    ],
)
async def test_a_model_that_refuses_a_temperature_gets_none(
    server: Server, model: str, takes_temperature: bool
) -> None:
    provider, _, name = model.partition(":")
    body = (await sent(server, endpoint_of(server, provider, name), None))["body"]
    assert body.get("temperature") == (0.5 if takes_temperature else None)


# What is not shown


def secretive(server: Server, **more: Any) -> Endpoint:
    return endpoint_of(
        server,
        "workshop",
        server.model,
        api_base=f"{server.address}/v1?api-key={KEY}",
        api_key=None,
        headers={"Authorization": f"Bearer {TOKEN}"},
        extra_body={"user": {"token": KEY}},
        **more,
    )


@pytest.mark.anyio
async def test_what_a_server_says_is_shown_without_the_secrets_of_headers_and_query(server: Server) -> None:
    endpoint = secretive(server)
    said = f"the token {TOKEN} and the key {KEY} are not mine, nor is Bearer {TOKEN}"
    script = json.dumps([refusal({"error": {"message": said}}, 400)])
    with pytest.raises(ModelError) as caught:
        await sent(server, endpoint, script)
    shown = f"{caught.value} {caught.value.help} {endpoint!r} {caught.value.host}"
    assert "[key]" in shown
    assert KEY not in shown
    assert TOKEN not in shown


@pytest.mark.anyio
async def test_a_list_of_models_is_asked_for_with_headers_and_query_and_told_without(server: Server) -> None:
    served = await ask_for_models(server.client, secretive(server), 5)
    assert served.models == ("small", "large")
    assert served.url == f"{server.address}/v1/models"
    assert (await ask_for_models(server.client, secretive(server, api="anthropic"), 5)).models == ("small", "large")


def test_no_command_shows_them(tmp_path: Path, address: str) -> None:
    (tmp_path / "pipelines.yaml").write_text(
        "version: 1\nextends: bub:default\nsettings:\n  model: workshop:m\n  retries: 0\n  providers:\n"
        f'    workshop: {{api_base: "{address}/v1?api-key={KEY}&api-version=2024-10-21", '
        f'headers: {{Authorization: "Bearer {TOKEN}", X-Title: My house}}, extra_body: {{user_token: {KEY}}}}}\n'
    )
    commands = [
        ["explain", "settings.providers.workshop"],
        ["explain", "settings.providers.workshop.api_base"],
        ["explain", "settings.providers.workshop.headers.Authorization"],
        ["config", "get", "providers.workshop"],
        ["config", "get", "providers.workshop.api_base"],
        ["validate", "--pedantic", "pipelines.yaml"],
        ["doctor"],
    ]
    shown = ""
    for command in commands:
        done = bub(tmp_path, "--config", "pipelines.yaml", *command)
        shown += done.stdout + done.stderr
    assert "My house" in shown
    assert "2024-10-21" in shown
    assert KEY not in shown
    assert TOKEN not in shown
