"""What OpenAPI cannot read off the code: bodies in three forms, with examples, and every refusal."""

from __future__ import annotations

from typing import Any

_PICTURE = {"type": "string", "format": "binary"}
_SAMPLES = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "pictures": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Picture files in base64.",
        },
        "arrays": {
            "type": "array",
            "items": {"type": "array", "items": {}},
            "description": "Arrays of the model's sample shape, values as it was trained on.",
        },
    },
}
_ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"pictures": {"type": "array", "items": _PICTURE}},
                    "required": ["pictures"],
                }
            },
            "image/*": {"schema": _PICTURE},
            "application/json": {
                "schema": _SAMPLES,
                "examples": {
                    "one picture": {"value": {"pictures": [_ONE_PIXEL]}},
                    "one array": {"value": {"arrays": [[[0.0, 0.5], [0.5, 1.0]]]}},
                },
            },
        },
    }
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
