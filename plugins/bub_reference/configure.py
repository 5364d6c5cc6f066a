"""Settings of plugins, on pydantic-settings: the environment over a section of the pipeline file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from bub.configure import merge as _merge
from bub_reference.errors import BubError, ErrorKind
from bub_reference.surroundings import DATA, PROCESS, here

ROOT = ""
"""The name of what is not in a section."""

MISSING = object()

CONFIG_MAP: dict[str, list[type[BaseSettings]]] = {}
"""The classes of settings that plugins have declared, by section."""

_config_data = DATA
_global_config = PROCESS.made

_Class = TypeVar("_Class", bound=type[BaseSettings])
_Settings = TypeVar("_Settings", bound=BaseSettings)


class Settings(BaseSettings):
    """The base of a plugin's settings: what the environment says counts before what the file says."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources, first the one that counts most."""
        return env_settings, dotenv_settings, init_settings, file_secret_settings


def config(name: str = ROOT) -> Callable[[_Class], _Class]:
    """Declare a class as the settings of a section."""

    def declare(settings: _Class) -> _Class:
        settings.__config_name__ = name  # type: ignore[attr-defined]
        declared = CONFIG_MAP.setdefault(name, [])
        if settings not in declared:
            declared.append(settings)
        return settings

    return declare


def ensure_config(config_cls: type[_Settings]) -> _Settings:
    """The settings of this class in the profile that the code runs for; read once, and the same from then on.

    Raises `ValueError` for a class that is not declared, `BubError` for settings that it refuses (outside of Bub, that
    is pydantic's own error).
    """
    section = getattr(config_cls, "__config_name__", ROOT)
    if section not in CONFIG_MAP:
        raise ValueError(f"no settings are declared for the section `{section}`: use @bub.config")
    place = here()
    made = place.made.setdefault(section, [])
    for settings in made:
        if isinstance(settings, config_cls):
            return settings
    try:
        settings = config_cls.model_validate(_section(place.settings, section))
    except ValidationError as error:
        if place is PROCESS:
            raise
        raise _explain(section, error) from None
    made.append(settings)
    return settings


def _explain(section: str, error: ValidationError) -> BubError:
    """Say what is wrong with settings; pydantic's own words show their values, secrets among them."""
    wrong = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"`{'.'.join(map(str, (section, *one['loc'])))}`: {one['msg']}" for one in wrong]
    return BubError(ErrorKind.CONFIG, f"the settings do not fit: {'; '.join(said)}")


def _section(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return dict(data if name == ROOT else data.get(name) or {})


def merge(base: dict[str, Any], *updates: Mapping[str, Any]) -> dict[str, Any]:
    """Lay each of the `updates` over `base`, which changes."""
    for update in updates:
        merged = _merge(base, update)
        base.clear()
        base.update(merged)
    return base


def load(config_file: Path) -> dict[str, Any]:
    """Read a configuration of the reference for the whole process; a file that is not there is an empty one."""
    _global_config.clear()
    _config_data.clear()
    if config_file.exists():
        _config_data.update(yaml.safe_load(config_file.read_text(encoding="utf-8")) or {})
    return _config_data


def validate(config_data: dict[str, Any]) -> dict[str, Any]:
    """Hold a configuration against all declared classes, whatever the environment says; raises pydantic's error."""
    for section, classes in CONFIG_MAP.items():
        for settings in classes:
            _of_file_alone(settings)(**_section(config_data, section))
    return config_data


def _of_file_alone(settings: type[BaseSettings]) -> type[BaseSettings]:
    class FileAlone(settings):  # type: ignore[valid-type, misc]
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, **_: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings,)

    FileAlone.__name__ = settings.__name__
    return FileAlone


def save(config_file: Path, config_data: dict[str, Any]) -> None:
    """Write a configuration of the reference, if it is valid."""
    text = yaml.safe_dump(validate(config_data), sort_keys=False)
    config_file.parent.mkdir(parents=True, exist_ok=True)
    config_file.write_text(text, encoding="utf-8")


def get_value(path: str, default: Any = MISSING) -> Any:
    """One setting by its dotted path, as its class has it; raises `KeyError` for one that is not there."""
    parts = [part for part in path.split(".") if part]
    if not parts:
        raise ValueError("a path has at least one name")
    ways = [(CONFIG_MAP.get(parts[0], []), parts[1:])] if parts[0] != ROOT else []
    for classes, rest in (*ways, (CONFIG_MAP.get(ROOT, []), parts)):
        for settings in classes:
            value = _follow(ensure_config(settings), rest)
            if value is not MISSING:
                return value
    if default is MISSING:
        raise KeyError(path)
    return default


def _follow(value: Any, parts: list[str]) -> Any:
    for part in parts:
        value = value.get(part, MISSING) if isinstance(value, Mapping) else getattr(value, part, MISSING)
        if value is MISSING:
            break
    return value
