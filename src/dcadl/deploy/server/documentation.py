"""What OpenAPI cannot read off the code: bodies in three forms, with examples, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np

_PICTURE = {"type": "string", "format": "binary"}
_ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


def request_body(shape: tuple[int, ...], most: int) -> dict[str, Any]:
    """The body of a request, in its forms, for a model that takes samples of `shape`; at most so many."""
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "properties": {"pictures": {"type": "array", "items": _PICTURE} | _count(most)},
                        "required": ["pictures"],
                    }
                },
                "image/*": {"schema": _PICTURE},
                "application/json": {
                    "schema": _samples(most),
                    "examples": {
                        "one picture": {"value": {"pictures": [_ONE_PIXEL]}},
                        "one array": {"value": {"arrays": [np.zeros(shape).tolist()]}},
                    },
                },
            },
        }
    }


def _count(most: int) -> dict[str, Any]:
    return {"minItems": 1, "maxItems": most}


def _samples(most: int) -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}} | _count(most)
    arrays = {"type": "array", "items": {"type": "array", "items": {}}} | _count(most)
    return {
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": ["pictures"]}, {"required": ["arrays"]}],
        "properties": {
            "pictures": texts | {"description": "Picture files in base64."},
            "arrays": arrays | {"description": "Arrays of the model's sample shape, as it was trained on."},
        },
    }


_REASON = {
    "type": "object",
    "properties": {"detail": {"type": "string"}},
    "required": ["detail"],
}
_WORDS = {
    400: "The body cannot be read.",
    401: "A token is needed.",
    404: "No such model, or no such page.",
    408: "Too slow: the request did not arrive, or could not be answered, in time.",
    409: "The model was replaced while the request waited.",
    413: "Too many bytes, pixels or pictures.",
    415: "Neither pictures nor JSON.",
    422: "Not what the model takes.",
    429: "Too many are waiting.",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {"application/json": {"schema": _REASON}}}
    for status, words in _WORDS.items()
}
