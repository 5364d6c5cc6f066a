"""A plugin's own section of the settings as a typed object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Protocol, Self, dataclass_transform, get_args, get_origin

import msgspec

from bub.base.diagnostics import did_you_mean
from bub.errors import BubError
from bub.secrets.verdict import is_named

_COVER = "***"
_REFUSAL = r"(?s)(?P<what>.*?)(?: - at `\$(?P<where>.*)`)?"
_MISSING = r"Object missing required field `(?P<name>.*)`"
_UNKNOWN = r"Object contains unknown field `(?P<name>.*)`"


class HasSettings(Protocol):
    """What a section is read from: the framework, or anything else that has `settings`."""

    @property
    def settings(self) -> Mapping[str, Any]: ...


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class _SettingsMeta(msgspec.StructMeta):
    """Makes a class of typed settings, for the section of the name it is given."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, section: str | None = None, **config: Any
    ) -> Any:
        if section is not None:
            namespace["__section__"] = section
        return super().__new__(
            cls, name, bases, namespace, **{"frozen": True, "kw_only": True, "forbid_unknown_fields": True, **config}
        )


class Settings(msgspec.Struct, metaclass=_SettingsMeta):
    """The base of a plugin's typed settings: `class WeatherSettings(bub.Settings, section="weather")`.

    Its fields are the settings of the section; one without a default is required. A part of a section is a class
    without `section`. Objects cannot be changed. A section that is printed shows no secret: no field whose name ends as
    those of secrets do (`token`, `api_key`), and none that is marked `writeOnly` as in a JSON Schema:
    `Annotated[str, msgspec.Meta(extra_json_schema={"writeOnly": True})]`.
    """

    __section__: ClassVar[str] = ""

    @classmethod
    def of(cls, framework: HasSettings) -> Self:
        """Read the section from the settings that `framework` has for its profile.

        A text may stand for a number or a boolean.

        Raises `BubError` with the path of the setting that is missing, unknown or of a wrong type, never with a value.
        """
        if not cls.__section__:
            raise TypeError(f'{cls.__name__} has no section: write `class {cls.__name__}(bub.Settings, section="…")`')
        section = framework.settings.get(cls.__section__)
        try:
            return msgspec.convert(section if section is not None else {}, cls, strict=False)
        except msgspec.ValidationError as error:
            raise _explain_refusal(cls, str(error)) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        secrets = secrets_of(type(self))
        values = [(name, getattr(self, name)) for name in self.__struct_fields__]
        return [(name, _COVER if value and name in secrets else value) for name, value in values]


def secrets_of(settings: type[Settings]) -> frozenset[str]:
    """Find the fields of a class of settings that hold a secret."""
    return frozenset(
        field.name
        for field in msgspec.structs.fields(settings)
        if is_named((field.encode_name,)) or _is_marked(field.type)
    )


def _is_marked(hint: Any) -> bool:
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    marked = any(isinstance(note, msgspec.Meta) and (note.extra_json_schema or {}).get("writeOnly") for note in notes)
    return marked or any(_is_marked(inner) for inner in get_args(hint))


def _explain_refusal(settings: type[Settings], said: str) -> BubError:
    """Say what is wrong with a section, of which `said` tells in the words of msgspec."""
    found = re.fullmatch(_REFUSAL, said)
    what, where = (found["what"], found["where"] or "") if found else ("", "")
    path = f"{settings.__section__}{where}"
    if missing := re.fullmatch(_MISSING, what):
        return BubError(
            f"the setting `{path}.{missing['name']}` is missing",
            help="write it under `settings:`, or set the variable that it is read from",
        )
    if unknown := re.fullmatch(_UNKNOWN, what):
        known = settings.__struct_encode_fields__ if not where else ()
        advice = did_you_mean(unknown["name"], known) or (f"there are {', '.join(known)}" if known else None)
        return BubError(f"there is no setting `{path}.{unknown['name']}`", help=advice)
    if what.startswith("Invalid"):  # what follows may be the value
        return BubError(f"the setting `{path}` has a value that it cannot have", help="correct it under `settings:`")
    return BubError(f"the setting `{path}` is wrong: {what[:1].lower()}{what[1:]}", help="correct it under `settings:`")
