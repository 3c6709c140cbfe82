"""What comes in: bodies within limits, pictures and arrays as samples of a model."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from dcadl.data.errors import TooManyPixelsError
from dcadl.data.images import decode_bytes
from dcadl.deploy.server.limits import Limits, Refusal
from dcadl.deploy.server.models import BYTE, Served
from dcadl.ops.patches import value_fault

# Up to here a request is read in the event loop: a thread's way there and back would take longer.
AT_ONCE_BYTES = 32_768  # of the body
AT_ONCE_PIXELS = 40_000  # of each picture

Floats = Annotated[list[Any], Field(description="Values of one sample, nested as its shape is.")]


class Samples(BaseModel):
    """Pictures in base64, or arrays of values as the model was trained on; one or many."""

    model_config = ConfigDict(extra="forbid")
    pictures: list[str] = Field(default=[], description="Picture files (PNG, JPEG, …) in base64.")
    arrays: list[Floats] = Field(default=[], description="Arrays of the model's sample shape.")


async def bounded_body(request: Request, limits: Limits) -> bytes:
    """The request's body; too large a one is refused as soon as it is, a slow one after a time."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > limits.upload_bytes:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.upload_bytes:
                    raise _too_large(limits)
    except TimeoutError:
        raise Refusal(408, f"The request did not arrive within {limits.seconds:g} s.") from None
    return bytes(body)


async def read_samples(request: Request, served: Served, limits: Limits) -> np.ndarray:
    """The samples of a request, (n, *sample shape) float32, whatever form they come in."""
    body = await bounded_body(request, limits)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    at_once = len(body) <= AT_ONCE_BYTES
    if kind == "application/json":
        return await _read(_from_json, body, served, limits, at_once)
    if kind == "multipart/form-data":
        files = await _form_files(request, body, limits)
    elif kind.startswith("image/") or kind == "application/octet-stream":
        files = [body]
    else:
        raise Refusal(415, "Send pictures as multipart/form-data, one as image/*, or application/json.")
    return await _read(_from_files, files, served, limits, at_once)


async def _read(
    read: Callable[[Any, Served, Limits], np.ndarray],
    given: Any,
    served: Served,
    limits: Limits,
    at_once: bool,
) -> np.ndarray:
    """Little is read at once; much, or a large picture in a small file, by a thread while others go on."""
    if at_once:
        try:
            return read(given, served, limits._replace(pixels=min(limits.pixels, AT_ONCE_PIXELS)))
        except Refusal as refusal:
            if refusal.status != 413:
                raise
    return await asyncio.to_thread(read, given, served, limits)


async def _form_files(request: Request, body: bytes, limits: Limits) -> list[bytes]:
    """The files of a form that has been read whole already."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        form = await Request(request.scope, receive).form(max_files=limits.batch, max_fields=limits.batch)
    except HTTPException as error:  # what starlette makes of a form that it cannot read
        if str(error.detail).startswith("Too many files"):
            raise Refusal(413, f"At most {limits.batch} pictures in one request.") from None
        raise Refusal(400, f"The form cannot be read: {error.detail}") from None
    return [await part.read() for _, part in form.multi_items() if isinstance(part, UploadFile)]


def _from_json(body: bytes, served: Served, limits: Limits) -> np.ndarray:
    try:
        given = Samples.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refusal(422, f"The JSON is not as it must be: {where or 'body'}: {first['msg']}.") from None
    if given.pictures and given.arrays:
        raise Refusal(422, "Give pictures or arrays, not both.")
    if given.arrays:
        _check_count(len(given.arrays), limits)
        return np.stack([_from_array(values, served) for values in given.arrays])
    try:
        files = [base64.b64decode(text, validate=True) for text in given.pictures]
    except (binascii.Error, ValueError):
        raise Refusal(422, "pictures must be base64.") from None
    return _from_files(files, served, limits)


def _from_array(values: Any, served: Served) -> np.ndarray:
    shape = served.sample_shape
    try:
        found = np.asarray(values)
    except ValueError:  # rows of different lengths
        found = np.asarray(None)
    if found.dtype.kind not in "biuf":
        raise Refusal(422, f"An array must hold numbers, {shape}.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused below
        sample = found.astype(np.float32)
    if sample.shape != shape:
        raise Refusal(422, f"An array must have shape {shape}; got {sample.shape}.")
    if not np.isfinite(sample).all():
        raise Refusal(422, "An array must hold finite numbers.")
    if (fault := value_fault(sample)) is not None:
        raise Refusal(422, f"An array {fault} in float32; scale it as in training.")
    return sample


def _from_files(files: list[bytes], served: Served, limits: Limits) -> np.ndarray:
    if not served.takes_pictures:
        raise Refusal(422, f"This model takes arrays of shape {served.sample_shape}, no pictures.")
    _check_count(len(files), limits)
    shape = served.sample_shape
    form: Any = {"size": shape[:2], "color": shape[2:] == (3,), "most_pixels": limits.pixels}
    samples = []
    for number, data in enumerate(files):
        try:
            samples.append(decode_bytes(data, **form))
        except TooManyPixelsError as error:
            raise Refusal(413, f"Picture {number}: {error}") from None
        except ValueError:
            raise Refusal(422, f"Picture {number} cannot be read as an image.") from None
    return (np.stack(samples).astype(np.float32) * np.float32(BYTE)).reshape(len(samples), *shape)


def _check_count(count: int, limits: Limits) -> None:
    if count == 0:
        raise Refusal(422, "There is no picture and no array in the request.")
    if count > limits.batch:
        raise Refusal(413, f"At most {limits.batch} pictures in one request; got {count}.")


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"A request may have at most {limits.upload_bytes} bytes.")
