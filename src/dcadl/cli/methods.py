"""A method's name and its parameters, as typed, to an estimator."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dcadl  # not dcadl.estimators: `--help` names the methods without importing them

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel

# Parameters that have an option of their own, and what samples are called
OPTIONS = {
    "patch_shape": "--patch",
    "stride": "--stride",
    "n_atoms": "--atoms",
    "max_memory": "--max-memory",
    "random_state": "--seed",
    "image_shape": "the pictures",
}
WORDS = {"none": None, "true": True, "false": False}


def method_names() -> dict[str, str]:
    """Names on the command line, such as patch-ridge, and their classes' names."""
    return {_kebab(name): name for name in dcadl.__all__ if name[0].isupper()}


def find_method(name: str) -> type:
    """The estimator class called `name`, upper or lower case, with or without hyphens."""
    for typed, cls in method_names().items():
        if _bare(name) == _bare(typed):
            return getattr(dcadl, cls)
    raise ValueError(f"--method must be one of {', '.join(method_names())}; got {name!r}.")


def build(method: type, params: dict[str, Any]) -> Any:
    """The estimator with these parameters; one it does not have is refused by name."""
    has = method().get_params()
    for name in params:
        if name not in has:
            raise ValueError(f"{method.__name__} has no parameter {name!r}; it has {', '.join(has)}.")
    return method(**params)


@contextmanager
def in_options_words(model: AnyModel) -> Iterator[None]:
    """What the library says of its parameters, said of the options that were typed."""
    names = "|".join(sorted(map(re.escape, model.get_params()), key=len, reverse=True))
    parameter = re.compile(rf"(?<![\w-])({names})(?!\w)")

    def option(found: re.Match[str]) -> str:
        return OPTIONS.get(found[1], f"--param {found[1]}")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield
        except ValueError as error:
            raise ValueError(parameter.sub(option, str(error))) from error
    for warning in caught:
        warnings.warn(parameter.sub(option, str(warning.message)), warning.category, stacklevel=2)


def parse_params(texts: list[str]) -> dict[str, Any]:
    """NAME=VALUE texts as parameters: numbers, tuples, true, false, none, else strings."""
    params = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ValueError(f"--param must be NAME=VALUE, such as lam1=0.001; got {text!r}.")
        params[name.strip()] = _value(value.strip())
    return params


def parse_shape(text: str | None, option: str) -> int | tuple[int, int] | None:
    """ "12" as 12 and "48x42" as (48, 42)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)(?:\s*[x×X,]\s*(\d+))?", text.strip())
    if match is None or 0 in (int(n) for n in match.groups() if n):
        raise ValueError(f"{option} must be a number or HxW, such as 12 or 48x42; got {text!r}.")
    height, width = match.groups()
    return int(height) if width is None else (int(height), int(width))


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=^LOO)(?=ADL)", "-", name).lower()


def _bare(name: str) -> str:
    return re.sub("[-_]", "", name).lower()
