"""What several plugins share can be read like any dict or list, and cannot be changed."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.hooks.frozen import FrozenDict, FrozenList, freeze, thaw

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)

DICT_CHANGES: dict[str, Callable[[Any], Any]] = {
    "item": lambda it: it.__setitem__("a", 0),
    "del": lambda it: it.__delitem__("a"),
    "or": lambda it: it.__ior__({"a": 0}),
    "clear": lambda it: it.clear(),
    "pop": lambda it: it.pop("a"),
    "popitem": lambda it: it.popitem(),
    "setdefault": lambda it: it.setdefault("new", 0),
    "update": lambda it: it.update(a=0),
}

LIST_CHANGES: dict[str, Callable[[Any], Any]] = {
    "item": lambda it: it.__setitem__(0, 9),
    "slice": lambda it: it.__setitem__(slice(0, 1), []),
    "del": lambda it: it.__delitem__(0),
    "add": lambda it: it.__iadd__([9]),
    "mul": lambda it: it.__imul__(2),
    "append": lambda it: it.append(9),
    "clear": lambda it: it.clear(),
    "extend": lambda it: it.extend([9]),
    "insert": lambda it: it.insert(0, 9),
    "pop": lambda it: it.pop(),
    "remove": lambda it: it.remove(3),
    "reverse": lambda it: it.reverse(),
    "sort": lambda it: it.sort(),
}


def containers_in(value: Any) -> list[Any]:
    """Every dict and list of a value, itself included."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict | list) else []
    return own + [found for item in inside for found in containers_in(item)]


class TestChanging:
    @pytest.mark.parametrize("change", DICT_CHANGES.values(), ids=DICT_CHANGES)
    def test_no_way_of_changing_a_dict_works(self, change: Callable[[Any], Any]) -> None:
        frozen = freeze({"a": 1, "b": 2})
        with pytest.raises(TypeError, match="shared by several plugins"):
            change(frozen)
        assert frozen == {"a": 1, "b": 2}

    @pytest.mark.parametrize("change", LIST_CHANGES.values(), ids=LIST_CHANGES)
    def test_no_way_of_changing_a_list_works(self, change: Callable[[Any], Any]) -> None:
        frozen = freeze([3, 1])
        with pytest.raises(TypeError, match="return what you want changed"):
            change(frozen)
        assert frozen == [3, 1]

    def test_every_method_that_changes_a_dict_or_list_is_refused(self) -> None:
        """A new Python may bring a new way of changing one: whatever differs from these is looked at."""
        reading = {"copy", "fromkeys", "get", "items", "keys", "values", "count", "index"}
        for kind, base, tried in ((FrozenDict, dict, DICT_CHANGES), (FrozenList, list, LIST_CHANGES)):
            public = {name for name in vars(base) if not name.startswith("_")}
            inherited = {name for name in public if getattr(kind, name) is getattr(base, name)}
            assert inherited <= reading
            assert public - reading <= set(tried)

    def test_what_lies_deeper_cannot_be_changed_either(self) -> None:
        frozen = freeze({"calls": [{"args": {"path": "a"}}]})
        with pytest.raises(TypeError):
            frozen["calls"][0]["args"]["path"] = "/etc/passwd"
        with pytest.raises(TypeError):
            frozen["calls"].append({})


class TestReading:
    @given(PLAIN)
    def test_it_compares_prints_and_serialises_as_the_original(self, value: Any) -> None:
        frozen = freeze(value)
        assert frozen == value
        assert repr(frozen) == repr(value)
        assert json.dumps(frozen) == json.dumps(value)
        assert msgspec.json.encode(frozen) == msgspec.json.encode(value)

    @given(PLAIN)
    def test_the_original_is_neither_changed_nor_reached_through_it(self, value: Any) -> None:
        before = copy.deepcopy(value)
        originals = {id(container) for container in containers_in(value)}
        frozen = freeze(value)
        assert value == before
        assert not originals & {id(container) for container in containers_in(frozen)}

    def test_a_change_to_the_original_does_not_show_in_it(self) -> None:
        original = {"args": {"path": "a"}}
        frozen = freeze(original)
        original["args"]["path"] = "b"
        assert frozen == {"args": {"path": "a"}}

    def test_what_is_no_dict_and_no_list_stays_what_it_is(self) -> None:
        class Message:
            pass

        message = Message()
        assert freeze(message) is message
        assert freeze({"message": message})["message"] is message


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "thaw": thaw,
}


class TestCopies:
    @pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
    @given(value=PLAIN)
    def test_a_copy_is_plain_all_the_way_down(self, make: Callable[[Any], Any], value: Any) -> None:
        made = make(freeze(value))
        assert made == value
        assert {type(container) for container in containers_in(made)} <= {dict, list}

    def test_a_dict_or_list_made_of_it_can_be_changed(self) -> None:
        of_dict, of_list = dict(freeze({"a": 1})), list(freeze([1]))
        of_dict["a"] = 2
        of_list.append(2)
        assert (of_dict, of_list) == ({"a": 2}, [1, 2])

    def test_what_a_plugin_builds_around_read_only_parts_thaws_too(self) -> None:
        shared = freeze({"args": {"paths": ["a"]}, "tool": "fs.read"})
        built = thaw({**shared, "tool": "fs.write", "also": [shared["args"]]})
        built["args"]["paths"].append("b")
        assert built == {"args": {"paths": ["a", "b"]}, "tool": "fs.write", "also": [{"paths": ["a"]}]}

    @given(PLAIN)
    def test_what_holds_nothing_read_only_stays_the_very_object(self, value: Any) -> None:
        assert thaw(value) is value
